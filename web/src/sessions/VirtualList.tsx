// A list of rows of one height, of which only those in sight are in the document.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props<T> {
  id: string;
  label: string;
  items: readonly T[];
  /** Changes whenever the items do. */
  version: number;
  keyOf: (item: T) => string;
  draw: (item: T, index: number) => JSX.Element;
  hasMore: boolean;
  /** The end is near: more items are wanted. */
  onEnd: () => void;
  /** The row that is to be in sight; null: wherever. */
  wanted: string | null;
}

const BEYOND = 8;
const GUESS = 56;

export function VirtualList<T>(props: Props<T>): JSX.Element {
  const { items, keyOf, version, hasMore, onEnd, wanted } = props;
  const frame = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const anchor = useRef<{ key: string; index: number } | null>(null);
  const [height, setHeight] = useState(GUESS);
  const [range, setRange] = useState({ first: 0, last: 30 });
  /** The row with the focus stays in the document, wherever it is: else the focus would be lost. */
  const [focused, setFocused] = useState<string | null>(null);

  const measure = () => {
    if (!frame.current) return; // somebody signed out, and the list is gone
    const { scrollTop, clientHeight } = frame.current;
    const first = Math.max(0, Math.floor(scrollTop / height) - BEYOND);
    const last = Math.ceil((scrollTop + clientHeight) / height) + BEYOND;
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
    const top = Math.floor(scrollTop / height);
    const item = items[top];
    // At the very top, what is new is to be seen.
    anchor.current = scrollTop < height / 2 || item === undefined ? null : { key: keyOf(item), index: top };
  };

  useEffect(() => {
    const own = frame.current!;
    const look = () => {
      const row = list.current?.querySelector("li");
      if (row && row.offsetHeight > 0) setHeight(row.offsetHeight);
    };
    const observer = new ResizeObserver(() => {
      look();
      measure();
    });
    observer.observe(own);
    return () => observer.disconnect();
  }, [height, items.length === 0]);

  // What comes or goes above does not move what is looked at.
  useLayoutEffect(() => {
    const kept = anchor.current;
    if (kept) {
      const index = items.findIndex((item) => keyOf(item) === kept.key);
      if (index >= 0 && index !== kept.index) frame.current!.scrollTop += (index - kept.index) * height;
    }
    measure();
  }, [version, height]);

  useEffect(() => {
    if (hasMore && range.last + BEYOND * 3 >= items.length) onEnd();
  }, [range.last, items.length, hasMore, version]);

  useLayoutEffect(() => {
    if (wanted === null) return;
    const index = items.findIndex((item) => keyOf(item) === wanted);
    if (index < 0) return;
    const own = frame.current!;
    const top = index * height;
    if (top < own.scrollTop) own.scrollTop = top;
    else if (top + height > own.scrollTop + own.clientHeight) own.scrollTop = top + height - own.clientHeight;
  }, [wanted, height]);

  /** Arrow keys go from row to row, also beyond those that are drawn. */
  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as Element).closest<HTMLElement>("li[data-index]");
    if (!row || !(event.target instanceof HTMLAnchorElement || event.target === row)) return;
    const index = Number(row.dataset.index);
    const page = Math.max(1, Math.floor(frame.current!.clientHeight / height) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -index, End: items.length };
    const step = event.altKey || event.ctrlKey || event.metaKey ? undefined : steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(index + step, 0), items.length - 1);
    setFocused(keyOf(items[next]!));
    requestAnimationFrame(() => {
      const found = list.current?.querySelector<HTMLElement>(`li[data-index="${next}"] a`);
      found?.focus({ preventScroll: true });
      found?.closest("li")?.scrollIntoView({ block: "nearest" });
    });
  };

  const drawn: number[] = [];
  for (let index = range.first; index < Math.min(range.last, items.length); index++) drawn.push(index);
  if (focused !== null) {
    const index = items.findIndex((item) => keyOf(item) === focused);
    if (index >= 0 && (index < range.first || index >= range.last)) drawn.push(index);
  }
  return (
    <div class="sessions-scroll" ref={frame} onScroll={measure} onKeyDown={onKeyDown} tabIndex={-1}>
      <ul
        id={props.id}
        ref={list}
        class="sessions-list"
        role="list"
        aria-label={props.label}
        style={{ height: `${items.length * height}px` }}
        onFocusIn={(event) => setFocused((event.target as Element).closest<HTMLElement>("li")?.dataset.key ?? null)}
        onFocusOut={(event) => {
          if (!list.current?.contains(event.relatedTarget as Node | null)) setFocused(null);
        }}
      >
        {drawn.map((index) => {
          const item = items[index]!;
          const key = keyOf(item);
          return (
            <li
              key={key}
              data-key={key}
              data-index={index}
              aria-posinset={index + 1}
              aria-setsize={hasMore ? -1 : items.length}
              style={{ transform: `translateY(${index * height}px)` }}
            >
              {props.draw(item, index)}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
