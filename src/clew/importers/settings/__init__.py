"""Settings of other programs: changed in one place, with what was there kept, and put back."""
