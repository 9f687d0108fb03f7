// The sheet of all keys, made of the commands.
import type { JSX } from "preact";
import { commands } from "./commands";
import { Dialog } from "./Dialog";
import { grouped, Keys } from "./KeySheet";

export function KeyDialog({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" class="keysheet" onClose={onClose}>
      <div class="keysheet-groups">
        {grouped(commands.value.filter((one) => one.keys?.length)).map(([name, found]) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {found.map((one) => (
                <div key={one.id}>
                  <dt>{one.title}</dt>
                  <dd>
                    {one.keys!.map((keys, index) => (
                      <span key={keys}>
                        {index > 0 && <small> or </small>}
                        <Keys keys={keys} />
                      </span>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
