// A list of very many rows, of which only those near the window are drawn. It keeps the row that the reader
// looks at where it is, whatever is measured, loaded or hidden above it.
import { signal } from "@preact/signals";
import { Heights } from "./heights";

/** Pixels that are drawn beyond the window, above and below. */
const BEYOND = 900;

export interface Range {
  first: number;
  last: number;
}

export class Scroller {
  readonly heights = new Heights();
  /** The rows to draw. */
  readonly range = signal<Range>({ first: 0, last: -1 });
  /** Counted up when the rows have to be drawn again. */
  readonly version = signal(0);
  /** Whether the reader is at the end. */
  readonly isAtEnd = signal(true);

  private element: HTMLElement | null = null;
  /** The row at the upper edge, and how far the edge is below its top; null: the end is kept in view. */
  private anchor: { at: number; offset: number } | null = null;
  private expected = -1;
  private rounds = 0;
  private width = 0;
  private observer = new ResizeObserver(() => {
    this.rounds = 0;
    this.settle();
  });

  constructor(private readonly onLook: (range: Range) => void) {}

  attach(element: HTMLElement | null, rows: HTMLElement | null): void {
    this.observer.disconnect();
    this.element = element;
    if (!element || !rows) return;
    this.width = element.clientWidth;
    this.observer.observe(element);
    this.observer.observe(rows);
  }

  /** The reader scrolled, or we did. */
  onScroll(): void {
    if (this.catchUp()) this.draw();
  }

  /** Take the place to which the reader scrolled; false: it is where we left it. To be called before heights are
   * changed: the event of the scrolling may come later. */
  catchUp(): boolean {
    const top = this.element?.scrollTop ?? this.expected;
    if (Math.abs(top - this.expected) < 1.5) return false;
    this.expected = top;
    this.rounds = 0;
    this.anchor = this.isAtBottom() ? null : this.at(top);
    this.isAtEnd.value = this.anchor === null;
    return true;
  }

  /** Show a row: at the top, in the middle, or only as far as needed. */
  show(at: number, where: "top" | "middle" | "near" = "top"): void {
    const element = this.element!;
    const height = element.clientHeight;
    const top = this.heights.top(at);
    const own = this.heights.get(at);
    if (where === "near") {
      const seen = element.scrollTop;
      if (this.heights.isMeasured(at) && top >= seen + 8 && top + own <= seen + height - 8) return this.again();
      const isBelow = top + own > seen + height && own < height - 16;
      this.anchor = { at, offset: isBelow && this.heights.isMeasured(at) ? own + 8 - height : -8 };
    } else {
      this.anchor = { at, offset: where === "middle" ? Math.min(-8, (own - height) / 3) : -8 };
    }
    this.isAtEnd.value = false;
    this.again();
  }

  /** Scroll by so many pixels. */
  by(distance: number): void {
    this.anchor = this.at(this.element!.scrollTop + distance);
    this.again();
  }

  toEnd(): void {
    this.anchor = null;
    this.isAtEnd.value = true;
    this.again();
  }

  toStart(): void {
    this.anchor = { at: 0, offset: 0 };
    this.isAtEnd.value = false;
    this.again();
  }

  /** The row at the upper edge of the window. */
  get first(): number {
    return this.heights.find(this.element?.scrollTop ?? 0);
  }

  get last(): number {
    const element = this.element;
    return element ? this.heights.find(element.scrollTop + element.clientHeight) : 0;
  }

  /** Rows have changed: draw them again, and keep the place. */
  again(): void {
    this.rounds = 0;
    this.version.value = this.version.peek() + 1;
  }

  /** After rows were drawn, or changed their size: measure them, go back to the place, draw what is missing. */
  settle(): void {
    const element = this.element;
    if (!element) return;
    if (element.clientWidth !== this.width) {
      this.width = element.clientWidth;
      this.heights.forget();
    }
    for (const row of element.querySelectorAll<HTMLElement>("[data-at]")) {
      this.heights.set(Number(row.dataset.at), row.getBoundingClientRect().height, true);
    }
    const end = element.scrollHeight - element.clientHeight;
    const wanted = this.anchor ? this.heights.top(this.anchor.at) + this.anchor.offset : end;
    const top = Math.max(0, Math.min(wanted, end));
    if (Math.abs(element.scrollTop - top) > 0.5) element.scrollTop = top;
    this.expected = element.scrollTop;
    this.isAtEnd.value = this.anchor === null || this.isAtBottom();
    // Estimates may have been wrong by much; after some rounds the next scrolling mends the rest.
    if (this.rounds++ < 12) this.draw();
  }

  private isAtBottom(): boolean {
    const { scrollTop, clientHeight, scrollHeight } = this.element!;
    return scrollTop + clientHeight >= scrollHeight - 3;
  }

  private at(top: number): { at: number; offset: number } {
    const at = this.heights.find(top);
    return { at, offset: top - this.heights.top(at) };
  }

  /** Draw other rows, if those that are drawn do not reach far enough beyond the window. */
  private draw(): void {
    const { scrollTop, clientHeight } = this.element!;
    const { first, last } = this.range.peek();
    const needed = this.between(scrollTop - BEYOND / 3, scrollTop + clientHeight + BEYOND / 3);
    if (needed.first < first || needed.last > last || last >= this.heights.length) {
      this.range.value = this.between(scrollTop - BEYOND, scrollTop + clientHeight + BEYOND);
    }
    this.onLook(this.range.peek());
  }

  private between(top: number, bottom: number): Range {
    if (this.heights.length === 0) return { first: 0, last: -1 };
    return { first: this.heights.find(top), last: this.heights.find(bottom) };
  }
}
