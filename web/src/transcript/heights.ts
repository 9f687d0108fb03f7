// How high each row is, and where it begins: a Fenwick tree, so that a change or a look takes a few steps
// however long the path is. What was not measured yet is an estimate.

export class Heights {
  private values = new Float64Array(256);
  private sums = new Float64Array(257);
  private measured = new Uint8Array(256);
  private count = 0;

  get length(): number {
    return this.count;
  }

  get total(): number {
    return this.top(this.count);
  }

  /** Grow or shrink; new rows get the estimate. */
  resize(count: number, estimate: number): void {
    if (count > this.values.length) {
      const size = Math.max(count, 2 * this.values.length);
      const values = new Float64Array(size);
      const measured = new Uint8Array(size);
      values.set(this.values.subarray(0, this.count));
      measured.set(this.measured.subarray(0, this.count));
      this.values = values;
      this.measured = measured;
    }
    const from = Math.min(count, this.count);
    this.values.fill(0, count, this.count);
    this.values.fill(estimate, from, count);
    this.measured.fill(0, from, Math.max(count, this.count));
    const grown = count - this.count;
    this.count = count;
    if (grown > 0 && grown < 64 && count < this.sums.length) {
      for (let at = count - grown; at < count; at++) this.add(at, estimate);
    } else {
      this.build();
    }
  }

  isMeasured(at: number): boolean {
    return this.measured[at] === 1;
  }

  get(at: number): number {
    return this.values[at] ?? 0;
  }

  /** Returns whether it changed by more than a fraction of a pixel. */
  set(at: number, height: number, isMeasured: boolean): boolean {
    if (at < 0 || at >= this.count) return false;
    this.measured[at] = isMeasured ? 1 : 0;
    const change = height - this.values[at]!;
    if (Math.abs(change) < 0.05) return false;
    this.values[at] = height;
    this.add(at, change);
    return true;
  }

  /** All rows at once, as after a change of what is hidden. */
  fill(height: (at: number) => number): void {
    for (let at = 0; at < this.count; at++) this.values[at] = height(at);
    this.measured.fill(0);
    this.build();
  }

  /** The heights stay as estimates: the page became wider or narrower. */
  forget(): void {
    this.measured.fill(0);
  }

  /** Where a row begins: the sum of the heights before it. */
  top(at: number): number {
    let sum = 0;
    for (let node = Math.min(at, this.count); node > 0; node -= node & -node) sum += this.sums[node]!;
    return sum;
  }

  /** The row at a distance from the top: the last one that begins there or before, and is not empty. */
  find(distance: number): number {
    let at = 0;
    let rest = Math.max(0, distance);
    for (let step = 1 << (31 - Math.clz32(Math.max(1, this.count))); step > 0; step >>= 1) {
      const next = at + step;
      if (next <= this.count && this.sums[next]! <= rest) {
        at = next;
        rest -= this.sums[next]!;
      }
    }
    return Math.min(at, Math.max(0, this.count - 1));
  }

  private add(at: number, change: number): void {
    for (let node = at + 1; node < this.sums.length; node += node & -node) this.sums[node]! += change;
  }

  private build(): void {
    const size = this.values.length;
    this.sums = new Float64Array(size + 1);
    for (let node = 1; node <= size; node++) {
      this.sums[node]! += this.values[node - 1]!;
      const parent = node + (node & -node);
      if (parent <= size) this.sums[parent]! += this.sums[node]!;
    }
  }
}
