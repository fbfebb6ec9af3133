// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Says where a card is to be found and what its hash is, or carries the card. Anyone may call it; it keeps nothing.
contract A2BPointers {
    /// Neither argument is indexed, so that both can be read from the log's data.
    event A2BPointer(string uri, bytes32 hash);

    /// @param uri  https://…, ipfs://…, or data:application/json;base64,… with the card itself
    /// @param hash SHA-256 of the card's bytes, zero for none
    function point(string calldata uri, bytes32 hash) external {
        emit A2BPointer(uri, hash);
    }
}
