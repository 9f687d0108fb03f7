// The one door for markup. The server made and cleaned it; nothing else on the page becomes HTML.
import { type JSX, render } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { CopyButton } from "./Copy";

interface Policy {
  createHTML(text: string): string;
}

const factory = (window as unknown as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes;
const policy: Policy = factory?.createPolicy("clew", { createHTML: (text) => text }) ?? { createHTML: (text) => text };

/** A button above a block of code or output; it takes no room, and no part in what is found or copied. */
function copySlot(pre: HTMLElement): HTMLElement {
  const slot = document.createElement("span");
  slot.className = "code-copy";
  pre.before(slot);
  render(<CopyButton text={() => codeOf(pre)} name="Copy this block" />, slot);
  return slot;
}

/** The code without the numbers of its lines. */
function codeOf(pre: HTMLElement): string {
  const lines = [...pre.querySelectorAll(":scope > .l")];
  return lines.length ? lines.map((line) => line.textContent).join("\n") : (pre.querySelector("code") ?? pre).textContent!;
}

/** HTML of a block that the server drew (`html` of a block, and of nothing else). */
export function Markup({ html, class: name = "" }: { html: string; class?: string }): JSX.Element {
  // The same object while the text is the same: then nothing is put in again, and what was unfolded stays so.
  const made = useMemo(() => ({ __html: policy.createHTML(html) }), [html]);
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!/<(?:pre|table)\b/.test(html)) return;
    const slots: HTMLElement[] = [];
    for (const box of own.current!.querySelectorAll<HTMLElement>("pre, table")) {
      // What scrolls has to be reached by the keyboard.
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
      if (box.matches("pre")) slots.push(copySlot(box));
    }
    return () => slots.forEach((slot) => render(null, slot));
  }, [html]);
  return <div ref={own} class={`markup ${name}`} dangerouslySetInnerHTML={made} />;
}
