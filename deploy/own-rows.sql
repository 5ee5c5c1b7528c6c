-- A role that reads the jobs on behalf of one user and nothing else: for programs that ask PostgreSQL itself.
-- Run once as a superuser, after `migrate`, in the service's database.
--
-- The first policy shows such a user's jobs; the second hides all others, also from who sets what the
-- service's own policies read. Both hold only for this role: the queue's statements pay nothing for them.
CREATE ROLE mailroom_user NOLOGIN NOSUPERUSER NOBYPASSRLS;
GRANT SELECT ON jobs_jobqueue TO mailroom_user;
DO $$
DECLARE
    -- The type of the user model's key: compared as such, so that the index by user is used.
    key text := (SELECT format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = 'jobs_jobqueue'::regclass AND attname = 'user_id');
    own text := format(
        'user_id = (SELECT nullif(current_setting(''mailroom.user'', true), '''')::%s)', key);
BEGIN
    EXECUTE format('CREATE POLICY own_rows ON jobs_jobqueue FOR SELECT TO mailroom_user USING (%s)', own);
    EXECUTE format('CREATE POLICY own_rows_alone ON jobs_jobqueue AS RESTRICTIVE FOR SELECT'
        ' TO mailroom_user USING (%s)', own);
END $$;
