// The development network that the tests talk to. Nothing is compiled here: that would download a compiler.
module.exports = { networks: { hardhat: { chainId: 31337 } } };
