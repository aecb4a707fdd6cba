import { StrictMode, useCallback, useState } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { SignIn } from "./app/SignIn";
import { type Entered, enter, forget } from "./app/signIn";
import { theme } from "./app/theme";
import "./styles/index.css";

theme.apply();

function Door({ entered }: { entered: Entered }) {
  const [inside, setInside] = useState(entered === "in");
  const signedOut = useCallback(() => {
    forget();
    setInside(false);
  }, []);
  if (inside) return <App signedOut={signedOut} />;
  return <SignIn refused={typeof entered === "object" ? entered.refused : null} />;
}

const entered = await enter();
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <Door entered={entered} />
  </StrictMode>,
);
