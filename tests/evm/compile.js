// Compile A2BPointers.sol with solc-js, which holds the compiler: node compile.js > A2BPointers.json
const fs = require("fs");
const path = require("path");
const solc = require("solc");

const name = "A2BPointers";
const content = fs.readFileSync(path.join(__dirname, `${name}.sol`), "utf8");
const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: { [`${name}.sol`]: { content } },
      settings: {
        evmVersion: "paris", // no PUSH0: not every chain has it
        metadata: { appendCBOR: false, bytecodeHash: "none" }, // the same bytes wherever it is compiled
        optimizer: { enabled: true, runs: 200 },
        outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.methodIdentifiers"] } },
      },
    }),
  ),
);
if (output.errors) {
  console.error(output.errors.map((error) => error.formattedMessage).join("\n"));
  process.exit(1);
}
const { abi, evm } = output.contracts[`${name}.sol`][name];
const built = { compiler: solc.version(), abi, bytecode: `0x${evm.bytecode.object}`, methods: evm.methodIdentifiers };
console.log(JSON.stringify(built, null, 2));
