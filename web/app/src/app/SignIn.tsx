/** For whoever has no token: how to get one. */
export function SignIn({ refused }: { refused: string | null }) {
  return (
    <main className="nothing">
      <b className="logo" aria-hidden="true">
        P
      </b>
      <h1>Palaver is running here</h1>
      {refused ? <p role="alert">{refused}</p> : null}
      <p>To sign in, run this in a terminal on this machine:</p>
      <p>
        <code>palaver open</code>
      </p>
    </main>
  );
}
