"""What is removed, when, and how: rules, sweeps, purges."""
