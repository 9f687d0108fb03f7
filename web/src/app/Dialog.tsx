// A dialog of the browser's own: it keeps the focus inside, and Escape closes it.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
  /** Without a heading: what is inside says what it is for. */
  isBare?: boolean;
}

export function Dialog({ title, onClose, children, class: name = "", isBare = false }: Props): JSX.Element {
  const own = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = own.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    return () => before?.focus();
  }, []);
  // The browser tells of a closed dialog a moment later. By then this one may be gone and another open.
  const close = () => {
    if (own.current) onClose();
  };
  return (
    <dialog
      ref={own}
      class={`dialog ${name}`}
      aria-label={title}
      onCancel={close}
      onClose={close}
      onClick={(event) => {
        if (event.target === own.current) close();
      }}
    >
      <div class="dialog-inside">
        {!isBare && (
          <header>
            <h2>{title}</h2>
            <button type="button" class="quiet" aria-label="Close" onClick={close}>
              ×
            </button>
          </header>
        )}
        {children}
      </div>
    </dialog>
  );
}
