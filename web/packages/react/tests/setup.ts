/** Effects and updates of a test are done before it looks; what it rendered is gone before the next one. */

import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

afterEach(cleanup);
