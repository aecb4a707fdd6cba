import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { useFile } from "../daemon/files";
import type { Block, Part } from "../shapes";
import { Icon } from "../ui/Icon";

/** A picture, a sound or a file of the session, fetched with the token. */
export function MediaBlock({ block }: { block: Block }) {
  const part = block.part as Part;
  const name = visible(part.name ?? part.ref?.split("/").pop() ?? block.kind);
  if (!part.ref) return <p className="line">{name}</p>;
  if (block.kind === "image") return <Picture path={part.ref} name={name} />;
  if (block.kind === "audio") return <Sound path={part.ref} name={name} />;
  return <Paper path={part.ref} name={name} />;
}

function Picture({ path, name }: { path: string; name: string }) {
  const here = useHere();
  const url = useFile(here, path);
  return (
    <figure className="media">
      <img data-ref={path} src={url} alt={name} />
    </figure>
  );
}

function Sound({ path, name }: { path: string; name: string }) {
  const here = useHere();
  const url = useFile(here, path);
  return (
    <figure className="media">
      {/* biome-ignore lint/a11y/useMediaCaption: nobody wrote one for what a person attached */}
      <audio data-ref={path} src={url} controls aria-label={name} />
    </figure>
  );
}

function Paper({ path, name }: { path: string; name: string }) {
  const here = useHere();
  const open = () => here.show({ kind: "artifact", title: name, path });
  return (
    <button type="button" className="chip paper" onClick={open} data-ref={path}>
      <Icon name="file" />
      {name}
    </button>
  );
}
