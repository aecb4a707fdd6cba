import { fileURLToPath } from "node:url";
import { mergeConfig } from "vitest/config";
import newest from "./vitest.config.js";

const modules = fileURLToPath(new URL("../../../node_modules/", import.meta.url));
const react18 = fileURLToPath(new URL("../../react-18/node_modules/", import.meta.url));

/** The same tests under the oldest React that is promised. */
export default mergeConfig(newest, {
  resolve: {
    alias: [
      { find: /^(react|react-dom)(\/.*)?$/, replacement: `${react18}$1$2` },
      // as a module whose imports are looked up here: its other form asks for the React beside it
      { find: /^@testing-library\/react$/, replacement: `${modules}@testing-library/react/dist/@testing-library/react.esm.js` },
    ],
  },
  test: { name: "react-18", env: { REACT: "18" } },
});
