from __future__ import annotations
import json
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
import pytest
from jobs.lists import *
from jobs.stats import queue_stats
from jobs.details import details_of
from jobs.clock import database_now
from jobs.admin.charts import charts
from jobs.admin.firm_lines import firm_lines
from jobs.models import *
from jobs.states import *
from tenants.scope import all_firms, firm_scope
from tests.benchmarks.seed import seed
from tests.plans.test_claim import nodes

@pytest.mark.django_db
def test_probe():
  import time
  if True:
    t=time.time()
    firms = seed(finished=20000, waiting=2000, dead=500)
    print('seed', time.time()-t)
    cases = {
     'jobs': lambda: list_jobs(JobFilter(), limit=50),
     'jobs2': lambda: list_jobs(JobFilter(), limit=50, cursor=CUR),
     'pending': lambda: list_jobs(JobFilter(status=Status.PENDING), limit=50),
     'dlq': lambda: list_jobs(JobFilter(status=Status.DLQ), limit=50),
     'category': lambda: list_jobs(JobFilter(category=Category.SYNC), limit=50),
     'dl open': lambda: list_dead_letters(DeadLetterFilter(resolution='open'), limit=50),
     'dl all': lambda: list_dead_letters(DeadLetterFilter(), limit=50),
     'page dead': lambda: details_of(DEAD),
     'page done': lambda: details_of(DONE),
     'page wait': lambda: details_of(WAIT),
     'stats': queue_stats,
     'charts': lambda: charts(database_now()),
     'firms': lambda: firm_lines(database_now()),
    }
    for scope in (lambda: all_firms('t'), lambda: firm_scope(firms[0])):
      with scope():
        g=globals()
        ids=list(JobQueue.objects.order_by('-pk').values_list('pk',flat=True))
        from jobs.lists import _encode
        g['CUR']=_encode(ids[len(ids)//2])
        g['DEAD']=JobQueue.objects.filter(status='dlq').first()
        g['DONE']=JobQueue.objects.filter(status='completed').first()
        g['WAIT']=JobQueue.objects.filter(status='pending').first()
        for n,c in cases.items():
          with CaptureQueriesContext(connection) as q: c()
          for s in [x['sql'] for x in q if 'jobs_jobqueue"' in x['sql'] or 'jobs_deadletterqueue"' in x['sql']]:
            if not s.startswith('SELECT'): continue
            with connection.cursor() as cu:
              if connection.vendor=='postgresql':
                cu.execute('EXPLAIN (ANALYZE, FORMAT JSON) '+s.replace('%','%%') if 0 else 'EXPLAIN (ANALYZE, FORMAT JSON) '+s)
                plan=cu.fetchone()[0]; plan=json.loads(plan) if isinstance(plan,str) else plan
                out=[]
                for nd in nodes(plan[0]['Plan']):
                  if nd.get('Relation Name') in ('jobs_jobqueue','jobs_deadletterqueue') :
                    out.append((nd['Node Type'],nd.get('Relation Name')[5:8],nd.get('Index Name'),(nd['Actual Rows']+nd.get('Rows Removed by Filter',0)+nd.get('Rows Removed by Index Recheck',0))*nd['Actual Loops']))
                print(n,'|',out)
              else:
                cu.execute('EXPLAIN QUERY PLAN '+s)
                print(n,'|',[r[-1] for r in cu.fetchall()])

