import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

// What is shipped holds the code of these; their licences go along.
const SHIPPED = ["preact", "@preact/signals", "@preact/signals-core"];

// What is loaded when it is first looked at, in one piece: charts, the tree, files, comparisons, dialogs, the first screen.
const LATER = /\/src\/(compare|usage|today\/(?!watching)|app\/(SignIn|Ambiguous|KeyDialog)|parts\/read|sessions\/TagDialog|transcript\/(Raw|markdown)|files|branches\/(BranchPanel|BranchTree|lanes|family|ForkDialog|MoveDialogs|AgentNote)|handoff\/(?!Handoff)).*\.tsx?$/;

function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const texts = SHIPPED.map((name) => {
        const folder = `node_modules/${name}`;
        const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
        return `${name} ${version}\n\n${readFileSync(`${folder}/LICENSE`, "utf8").trim()}\n`;
      });
      this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join("\n\n") });
    },
  };
}

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/clew/server/page/bundle",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox128", "safari17.5"], // they know light-dark() and nesting
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      input: "src/main.tsx",
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        assetFileNames: "app[extname]",
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            { name: "later", test: LATER, priority: 2 },
            { name: "first", test: /./, priority: 1 },
          ],
        },
      },
    },
  },
  plugins: [licences()],
});
