"""Following what agents write: directories are watched, and what changed is brought into the store."""
