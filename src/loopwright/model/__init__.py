"""What is said and what happened: values only, no behaviour that needs a clock, a loop or I/O.

Owns: messages, records, events, errors, usage and the codec between records and bytes.
Must not know: any other layer of the package.
Read next: `records.py`, then `codec.py`.
"""
