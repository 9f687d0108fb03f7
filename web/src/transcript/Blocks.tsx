// The parts of a message: what was said, thought, called, answered and shown.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { headers, isShare } from "../api/client";
import type { Block, Entry, Media, ToolLine } from "../api/types";
import { to } from "../app/router";
import { told } from "../app/toast";
import { Markup } from "../parts/Markup";
import { bytes, plural } from "../parts/numbers";
import type { Reading } from "./Reading";

/** Letters of a text that are shown at once. */
const LONG = 8192;

interface Props {
  reading: Reading;
  entry: Entry;
  block: Block;
  /** Names the block among all: what is unfolded is remembered by it. */
  name: string;
}

export function BlockView(props: Props): JSX.Element {
  const { block } = props;
  switch (block.kind) {
    case "call":
      return <Call {...props} />;
    case "result":
      return <Result {...props} />;
    case "thinking":
      return (
        <Fold {...props} class="transcript-thought" line={<Words verb="Thinking" rest={block.text ?? ""} />}>
          <Markup html={block.html ?? ""} />
        </Fold>
      );
    case "media":
      return <Picture block={block} />;
    case "data":
      return (
        <Fold {...props} class="transcript-data" line={<Words verb="Data" rest={block.text ?? ""} />}>
          <Markup html={block.html ?? ""} />
        </Fold>
      );
    default:
      return <Said {...props} />;
  }
}

function Said({ reading, block, name }: Props): JSX.Element {
  const size = block.text?.length ?? 0;
  const isOpen = size <= LONG || reading.open.value.has(name);
  return (
    <>
      <div class={isOpen ? undefined : "transcript-cut"}>
        <Markup html={block.html ?? ""} />
      </div>
      {size > LONG && (
        <button type="button" class="transcript-all" aria-expanded={isOpen} onClick={() => reading.toggle(name)}>
          {isOpen ? "Show less" : `Show all (${bytes(size)})`}
        </button>
      )}
    </>
  );
}

interface FoldProps extends Props {
  class: string;
  line: JSX.Element;
  children: JSX.Element | JSX.Element[];
}

/** One line, with more below it when it is pressed. */
function Fold({ reading, name, class: kind, line, children }: FoldProps): JSX.Element {
  const isOpen = reading.open.value.has(name);
  return (
    <div class={`transcript-fold ${kind}`}>
      <button type="button" class="transcript-line" aria-expanded={isOpen} onClick={() => reading.toggle(name)}>
        {line}
      </button>
      {isOpen && <div class="transcript-inside">{children}</div>}
    </div>
  );
}

function Words({ verb, rest }: { verb: string; rest: string }): JSX.Element {
  return (
    <>
      <b>{verb}</b> <span class="transcript-outcome">{rest.trimStart().slice(0, 200).split("\n", 1)[0]}</span>
    </>
  );
}

/** `Edit auth.py +3 −1`, with the parts drawn differently. */
export function Line({ line, isWaiting = false }: { line: ToolLine; isWaiting?: boolean }): JSX.Element {
  const outcome = line.outcome.split(" ").map((word, index) => {
    const isCount = /^[+−][\d,]+$/.test(word) && (line.family === "edit" || line.family === "shell");
    const kind = isCount ? (word[0] === "+" ? "transcript-more" : "transcript-fewer") : undefined;
    return (
      <>
        {index > 0 && " "}
        {kind ? <i class={kind}>{word}</i> : word}
      </>
    );
  });
  return (
    <>
      <b>{line.verb}</b>
      {line.subject && <span class="transcript-subject"> {line.subject}</span>}{" "}
      {line.outcome ? <span class="transcript-outcome">{outcome}</span> : isWaiting && <i class="transcript-running">running…</i>}
    </>
  );
}

/** A call, with what came of it inside. */
function Call(props: Props): JSX.Element {
  const { reading, entry, block } = props;
  void reading.scroller.version.value; // the result may have come
  const answers = block.call === undefined ? [] : reading.path.answersTo(entry.position, block.call);
  const result = answers.find((one) => one.kind === "result");
  const line = result?.line ?? block.line ?? { text: "", verb: block.name ?? "Tool", subject: "", outcome: "", failed: false, family: "" };
  const isWaiting = answers.length === 0 && reading.path.status.value === "running" && reading.at === null;
  const agent = line.family === "agent" ? reading.subagents.startedBy(block, answers) : null;
  const kind = ["transcript-call", line.family && `transcript-${line.family}`, line.failed && "transcript-failed"];
  return (
    <>
      <Fold {...props} class={kind.filter(Boolean).join(" ")} line={<Line line={line} isWaiting={isWaiting} />}>
        <Markup html={block.html ?? ""} />
        <>
          {answers.map((answer, index) =>
            answer.kind === "media" ? <Picture key={index} block={answer} /> : <Markup key={index} html={answer.html ?? ""} />,
          )}
          {answers.length === 0 && <p class="transcript-note">{isWaiting ? "It has not answered yet." : "It has no result."}</p>}
        </>
      </Fold>
      {agent && (
        <a class="transcript-subagent" href={to.session(agent.id)}>
          Open the subagent: {agent.title ?? agent.id} ({plural(agent.messages, "message")})
        </a>
      )}
    </>
  );
}

/** A result whose call is not known. */
function Result(props: Props): JSX.Element {
  const { block } = props;
  const what = block.is_error ? "Error of" : "Result of";
  const line = block.line ? <Line line={block.line} /> : <Words verb={`${what} ${block.name ?? "a tool"}`} rest={block.text ?? ""} />;
  const isBad = block.is_error || block.line?.failed;
  return (
    <Fold {...props} class={isBad ? "transcript-call transcript-failed" : "transcript-call"} line={line}>
      <Markup html={block.html ?? ""} />
    </Fold>
  );
}

/** The types that can be nothing but a picture. */
const RASTER = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function Picture({ block }: { block: Block }): JSX.Element {
  const media = block.media;
  if (media?.link && RASTER.includes(media.type)) return <Linked media={media} link={media.link} />;
  return (
    <>
      <Markup html={block.html ?? ""} />
      {media?.link && <Saved media={media} link={media.link} />}
      {media?.url && (
        <p class="transcript-note">
          It lies elsewhere, and was not loaded: <code>{media.url.slice(0, 500)}</code>
        </p>
      )}
    </>
  );
}

/** A picture that is loaded when it comes into view. A share has to send its token along. */
function Linked({ media, link }: { media: Media; link: string }): JSX.Element {
  const [source, setSource] = useState(isShare() ? "" : link);
  useEffect(() => {
    if (!isShare()) return;
    let made = "";
    const over = new AbortController();
    fetched(link, over.signal).then((content) => {
      made = URL.createObjectURL(content);
      setSource(made);
    }, told);
    return () => {
      over.abort();
      URL.revokeObjectURL(made);
    };
  }, [link]);
  return (
    <div class="markup">
      <p class="img">{source && <img src={source} alt={media.name || "A picture"} loading="lazy" decoding="async" />}</p>
    </div>
  );
}

function Saved({ media, link }: { media: Media; link: string }): JSX.Element {
  const name = media.name || "file";
  const text = `Save ${name} (${bytes(media.bytes ?? 0)})`;
  if (!isShare()) {
    return (
      <p class="transcript-note">
        <a href={link} download={name}>
          {text}
        </a>
      </p>
    );
  }
  const save = async () => {
    const made = URL.createObjectURL(await fetched(link));
    const anchor = document.createElement("a");
    anchor.href = made;
    anchor.download = name;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(made), 10_000);
  };
  return (
    <button type="button" onClick={() => void save().catch(told)}>
      {text}
    </button>
  );
}

async function fetched(link: string, signal?: AbortSignal): Promise<Blob> {
  const answer = await fetch(link, { headers: headers(), credentials: "omit", signal });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.blob();
}
