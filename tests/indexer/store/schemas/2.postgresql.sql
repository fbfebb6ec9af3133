CREATE TABLE blocks (
    chain TEXT COLLATE "C" NOT NULL,
    height INTEGER NOT NULL,
    hash BYTEA NOT NULL,
    prev BYTEA NOT NULL,
    time BIGINT NOT NULL,
    header BYTEA NOT NULL,
    PRIMARY KEY (chain, height)
);
CREATE INDEX blocks_by_hash ON blocks (hash);
CREATE TABLE cards (
    sha256 BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (sha256)
);
CREATE TABLE changes (
    seq BIGINT NOT NULL,
    chain TEXT COLLATE "C" NOT NULL,
    op VARCHAR NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    height INTEGER,
    reason VARCHAR NOT NULL,
    PRIMARY KEY (seq)
);
CREATE TABLE checks (
    chain TEXT COLLATE "C" NOT NULL,
    txid BYTEA NOT NULL,
    vout BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    checked_at BIGINT,
    told_at BIGINT,
    PRIMARY KEY (chain, txid, vout)
);
CREATE TABLE cursors (
    name VARCHAR NOT NULL,
    epoch VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE found (
    chain TEXT COLLATE "C" NOT NULL,
    txid BYTEA NOT NULL,
    height INTEGER NOT NULL,
    raw BYTEA NOT NULL,
    bump BYTEA NOT NULL,
    PRIMARY KEY (chain, txid)
);
CREATE TABLE headers (
    chain TEXT COLLATE "C" NOT NULL,
    first INTEGER NOT NULL,
    raw BYTEA NOT NULL,
    PRIMARY KEY (chain, first)
);
CREATE TABLE meta (
    key VARCHAR NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key)
);
CREATE TABLE outputs (
    txid BYTEA NOT NULL,
    vout BIGINT NOT NULL,
    satoshis BIGINT NOT NULL,
    PRIMARY KEY (txid, vout)
);
CREATE TABLE pending (
    chain TEXT COLLATE "C" NOT NULL,
    place BIGINT NOT NULL,
    height INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    tx_index INTEGER NOT NULL,
    txid BYTEA NOT NULL,
    vout BIGINT,
    spent_txid BYTEA,
    spent_vout BIGINT,
    card BYTEA,
    valid BOOLEAN NOT NULL,
    reasons TEXT,
    owner TEXT COLLATE "C",
    signer TEXT,
    pointer TEXT,
    anchor TEXT COLLATE "C",
    registration TEXT COLLATE "C",
    type VARCHAR,
    status VARCHAR,
    at_txid BYTEA,
    at_vout BIGINT,
    at_offset BIGINT,
    at_satoshis BIGINT,
    holder TEXT COLLATE "C",
    map TEXT,
    winner_card BYTEA,
    winner_txid BYTEA,
    winner_vout BIGINT,
    updated_height INTEGER,
    created_height INTEGER,
    PRIMARY KEY (chain, place)
);
CREATE INDEX pending_by_registration ON pending (registration);
CREATE INDEX pending_by_tx ON pending (txid);
CREATE TABLE pending_cards (
    chain TEXT COLLATE "C" NOT NULL,
    sha256 BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (chain, sha256)
);
CREATE TABLE requests (
    txid BYTEA NOT NULL,
    client TEXT COLLATE "C" NOT NULL,
    asked_at BIGINT NOT NULL,
    tries INTEGER NOT NULL,
    next_at BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (txid)
);
CREATE INDEX requests_open ON requests (state, next_at);
CREATE TABLE events (
    chain TEXT COLLATE "C" NOT NULL,
    place BIGINT NOT NULL,
    height INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    tx_index INTEGER NOT NULL,
    txid BYTEA NOT NULL,
    vout BIGINT,
    spent_txid BYTEA,
    spent_vout BIGINT,
    card BYTEA,
    valid BOOLEAN NOT NULL,
    reasons TEXT,
    owner TEXT COLLATE "C",
    signer TEXT,
    pointer TEXT,
    anchor TEXT COLLATE "C",
    registration TEXT COLLATE "C",
    type VARCHAR,
    status VARCHAR,
    at_txid BYTEA,
    at_vout BIGINT,
    at_offset BIGINT,
    at_satoshis BIGINT,
    holder TEXT COLLATE "C",
    map TEXT,
    winner_card BYTEA,
    winner_txid BYTEA,
    winner_vout BIGINT,
    updated_height INTEGER,
    created_height INTEGER,
    PRIMARY KEY (chain, place),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE INDEX events_by_anchor ON events (anchor) WHERE anchor IS NOT NULL;
CREATE INDEX events_by_block ON events (chain, height);
CREATE INDEX events_by_registration ON events (registration, chain, place);
CREATE INDEX events_by_seat ON events (at_txid) WHERE at_txid IS NOT NULL;
CREATE INDEX events_by_tx ON events (txid);
CREATE INDEX events_loose ON events (chain, kind, place) WHERE registration IS NULL;
CREATE INDEX events_undecided ON events (chain, place) WHERE kind = 'undecided';
CREATE TABLE proofs (
    chain TEXT COLLATE "C" NOT NULL,
    height INTEGER NOT NULL,
    txid BYTEA NOT NULL,
    raw BYTEA NOT NULL,
    bump BYTEA NOT NULL,
    PRIMARY KEY (chain, height, txid),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE INDEX proofs_by_tx ON proofs (txid);
