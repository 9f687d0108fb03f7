"""What every benchmark needs: scratch space, work to do, measuring in turns, tables and plots."""
