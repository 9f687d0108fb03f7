import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "../app/Dialog";
import { setTags, type Target } from "./actions";
import { facets, readFacets } from "./FilterBar";

/** The tags of a session. They are kept when the dialog is closed by its button or by Enter. */
export function TagDialog({ target, onClose }: { target: Target; onClose: () => void }): JSX.Element {
  const [tags, setNow] = useState<readonly string[]>(target.tags);
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    readFacets();
    field.current!.focus();
  }, []);
  const added = (): readonly string[] => {
    const tag = text.trim();
    return tag === "" || tags.includes(tag) ? tags : [...tags, tag];
  };
  const offered = (facets.value?.tags ?? []).map((one) => one.value).filter((one) => !tags.includes(one));
  return (
    <Dialog title="Tags" onClose={onClose} class="sessions-tagging">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim() !== "") {
            setNow(added());
            setText("");
            return;
          }
          void setTags(target.id, tags);
          onClose();
        }}
      >
        <p>{target.title ?? target.id}</p>
        <ul class="sessions-tags" aria-label="Tags of this session">
          {tags.map((one) => (
            <li key={one} class="sessions-tag">
              {one}
              <button type="button" aria-label={`Take the tag ${one} away`} onClick={() => setNow(tags.filter((other) => other !== one))}>
                ×
              </button>
            </li>
          ))}
        </ul>
        <label>
          New tag
          <input
            ref={field}
            value={text}
            list="sessions-known-tags"
            maxLength={100}
            autocomplete="off"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <datalist id="sessions-known-tags">
          {offered.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <footer>
          <button
            type="button"
            class="primary"
            onClick={() => {
              void setTags(target.id, added());
              onClose();
            }}
          >
            Save
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
