// A dialog of the browser's own: it keeps the focus inside, and Escape closes it.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}

export function Dialog({ title, onClose, children, class: name = "" }: Props): JSX.Element {
  const own = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = own.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog
      ref={own}
      class={`dialog ${name}`}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === own.current) own.current?.close();
      }}
    >
      <div class="dialog-inside">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => own.current?.close()}>
            ×
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
