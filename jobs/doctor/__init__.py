"""The queue doctor: looks at the database the queue lives in, and says what would mend it.

It only reads, inside transactions that are rolled back, and gives up on what takes long.
"""

from jobs.doctor.examination import Examination, examine
from jobs.doctor.finding import Finding, FindingRow, Severity, finding_row

__all__ = ["Examination", "Finding", "FindingRow", "Severity", "examine", "finding_row"]
