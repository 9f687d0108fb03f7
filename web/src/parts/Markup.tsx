// The one door for markup. The server made and cleaned it; nothing else on the page becomes HTML.
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

interface Policy {
  createHTML(text: string): string;
}

const factory = (window as unknown as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes;
const policy: Policy = factory?.createPolicy("clew", { createHTML: (text) => text }) ?? { createHTML: (text) => text };

/** HTML of a block that the server drew (`html` of a block, and of nothing else). */
export function Markup({ html, class: name = "" }: { html: string; class?: string }): JSX.Element {
  // The same object while the text is the same: then nothing is put in again, and what was unfolded stays so.
  const made = useMemo(() => ({ __html: policy.createHTML(html) }), [html]);
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!html.includes("<pre")) return;
    // What scrolls has to be reached by the keyboard.
    for (const pre of own.current!.querySelectorAll("pre")) {
      if (pre.scrollWidth > pre.clientWidth || pre.scrollHeight > pre.clientHeight) pre.tabIndex = 0;
    }
  }, [html]);
  return <div ref={own} class={`markup ${name}`} dangerouslySetInnerHTML={made} />;
}
