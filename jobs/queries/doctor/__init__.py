"""The queue doctor: checks the queue's database and says what to do about what it finds.

It only reads, in transactions that are rolled back, with a time limit.
"""

from jobs.queries.doctor.base import Finding, Severity
from jobs.queries.doctor.examination import Examination, examine

__all__ = ["Examination", "Finding", "Severity", "examine"]
