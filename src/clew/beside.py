"""What a session keeps beside its conversation, and what does not rewind with it."""

from __future__ import annotations

from clew.core.conversation import documents, sessions
from clew.core.log.ids import check_id
from clew.core.log.records import json_in
from clew.core.messages.codec import encode_json
from clew.handle import Handle
from clew.model import Json


class Beside(Handle):
    """Variables and documents of a session."""

    # -- variables: a few JSON values

    def set_var(self, name: str, value: Json) -> None:
        """Keep a JSON value with the session. It does not rewind."""
        self._write(sessions.set_var, check_id(name, "variable name"), encode_json(value, what=name))

    def get_var(self, name: str, default: Json = None) -> Json:
        check_id(name, "variable name")
        with self._look() as (reader, _):
            value = reader.get_record(self._sid, "var", name)
        return default if value is None else json_in(value, f"the variable {name!r}")

    def vars(self) -> dict[str, Json]:
        with self._look() as (reader, _):
            return {
                name: json_in(value, f"the variable {name!r}")
                for name, value in reader.scan_records(self._sid, "var")
            }

    def delete_var(self, name: str) -> bool:
        """False if there was none."""
        return self._write(sessions.delete_var, check_id(name, "variable name"))

    # -- documents: bytes, any number of them

    def set_document(self, name: str, content: bytes) -> None:
        """Keep bytes under a name, instead of those before. They do not rewind; forks do not have them."""
        self._write(documents.set_document, check_id(name, "document name"), documents.content_of(content))

    def get_document(self, name: str) -> bytes | None:
        """None: there is none of this name."""
        check_id(name, "document name")
        with self._look() as (reader, _):
            return reader.get_record(self._sid, "document", name)

    def documents(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[tuple[str, bytes]]:
        """Names and contents of the documents whose names begin with `prefix`, in the order of their names.

        Args:
            after: Only those behind this name; for the next page.
            limit: How many at most.
            newest_first: From the last name to the first: names that grow with time are then newest first.
        """
        with self._look() as (reader, _):
            return documents.scan_documents(
                reader, self._sid, prefix, after, limit, newest_first=newest_first
            )

    def delete_document(self, name: str) -> bool:
        """False if there was none."""
        return self._write(documents.delete_document, check_id(name, "document name"))
