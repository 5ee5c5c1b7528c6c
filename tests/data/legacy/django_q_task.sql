-- What django-q2 keeps of tasks that are over, and its queue. Arguments and results are pickled.
CREATE TABLE django_q_task (
    id varchar(32) PRIMARY KEY,
    name varchar(100) NOT NULL,
    func varchar(256) NOT NULL,
    hook varchar(256),
    args text,
    kwargs text,
    result text,
    "group" varchar(100),
    started timestamptz NOT NULL,
    stopped timestamptz NOT NULL,
    success boolean NOT NULL,
    attempt_count integer NOT NULL,
    cluster varchar(100)
);
INSERT INTO django_q_task VALUES
('0a1b2c3d4e5f60718293a4b5c6d7e8f9', 'red-oven', 'shop.tasks.send_receipt', NULL, 'gASVCwAAAAAAAABLB4WULg==', 'gAR9lC4=',
 'gASVCAAAAAAAAACMBHNlbnSULg==', NULL, '2026-04-01 12:00:00+00:00', '2026-04-01 12:00:05+00:00', true, 1, NULL),
('1a1b2c3d4e5f60718293a4b5c6d7e8f9', 'blue-fish', 'shop.tasks.send_receipt', NULL, 'gASVCwAAAAAAAABLCIWULg==', 'gAR9lC4=',
 'gASVCAAAAAAAAACMBGF3YXmULg==', NULL, '2026-04-01 12:01:00+00:00', '2026-04-01 12:01:05+00:00', false, 4, NULL);
CREATE TABLE django_q_ormq (
    id integer PRIMARY KEY,
    key varchar(100) NOT NULL,
    payload text NOT NULL,
    lock timestamptz
);
INSERT INTO django_q_ormq VALUES (1, 'default', 'gAR9lC4=:signature', '2026-04-01 12:02:00+00:00');
