"""The stores beside each other: `./dev bench --stores`. Read next: `contestants.py`, then `commits.py`."""
