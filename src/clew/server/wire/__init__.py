"""The types of requests and answers. Fields are only ever added."""

from __future__ import annotations

from clew.model import files, run, session

# These modules of the model name each other's types in annotations only, so that a program without files does
# not load those of files. What describes the API has to know them.
vars(session).update(RestoreReport=files.RestoreReport, RunInfo=run.RunInfo, Progress=run.Progress)
