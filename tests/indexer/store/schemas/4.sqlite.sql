CREATE TABLE badges (
    registration TEXT NOT NULL,
    host TEXT NOT NULL,
    card BLOB NOT NULL,
    "by" VARCHAR NOT NULL,
    checked_at BIGINT NOT NULL,
    next_at BIGINT,
    tries INTEGER NOT NULL,
    reason VARCHAR NOT NULL,
    PRIMARY KEY (registration)
);
CREATE INDEX badges_by_host ON badges (host, card);
CREATE INDEX badges_due ON badges (next_at);
CREATE TABLE blocks (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    hash BLOB NOT NULL,
    prev BLOB NOT NULL,
    time BIGINT NOT NULL,
    header BLOB NOT NULL,
    PRIMARY KEY (chain, height)
);
CREATE INDEX blocks_by_hash ON blocks (hash);
CREATE TABLE card_signatures (
    card BLOB NOT NULL,
    url TEXT NOT NULL,
    "by" TEXT NOT NULL,
    kid TEXT NOT NULL,
    form VARCHAR NOT NULL,
    covers_pricing BOOLEAN NOT NULL,
    reason VARCHAR NOT NULL,
    tries INTEGER NOT NULL,
    checked_at BIGINT NOT NULL,
    verified_at BIGINT NOT NULL,
    next_at BIGINT,
    PRIMARY KEY (card)
);
CREATE INDEX card_signatures_by_url ON card_signatures (url);
CREATE INDEX card_signatures_due ON card_signatures (next_at);
CREATE TABLE cards (
    sha256 BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (sha256)
);
CREATE TABLE changes (
    seq BIGINT NOT NULL,
    chain TEXT NOT NULL,
    op VARCHAR NOT NULL,
    id TEXT NOT NULL,
    height INTEGER,
    reason VARCHAR NOT NULL,
    PRIMARY KEY (seq)
);
CREATE TABLE checks (
    chain TEXT NOT NULL,
    txid BLOB NOT NULL,
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
CREATE TABLE fetches (
    locator TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    url TEXT NOT NULL,
    by_cid BOOLEAN NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (locator, sha256)
);
CREATE INDEX fetches_by_sha256 ON fetches (sha256);
CREATE TABLE found (
    chain TEXT NOT NULL,
    txid BLOB NOT NULL,
    height INTEGER NOT NULL,
    raw BLOB NOT NULL,
    bump BLOB NOT NULL,
    PRIMARY KEY (chain, txid)
);
CREATE TABLE headers (
    chain TEXT NOT NULL,
    first INTEGER NOT NULL,
    raw BLOB NOT NULL,
    PRIMARY KEY (chain, first)
);
CREATE TABLE locators (
    locator TEXT NOT NULL,
    state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    detail TEXT NOT NULL,
    tries INTEGER NOT NULL,
    added_at BIGINT NOT NULL,
    last_at BIGINT,
    next_at BIGINT,
    serving BLOB,
    serving_since BIGINT,
    validators TEXT NOT NULL,
    PRIMARY KEY (locator)
);
CREATE INDEX locators_due ON locators (next_at);
CREATE TABLE logos (
    url_sha256 BLOB NOT NULL,
    url TEXT NOT NULL,
    state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    tries INTEGER NOT NULL,
    wanted_at BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    sha256 BLOB,
    body BLOB,
    PRIMARY KEY (url_sha256)
);
CREATE INDEX logos_by_sha256 ON logos (sha256);
CREATE INDEX logos_by_state ON logos (state, noted_at);
CREATE INDEX logos_by_want ON logos (wanted_at);
CREATE INDEX logos_due ON logos (next_at);
CREATE TABLE meta (
    "key" VARCHAR NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);
CREATE TABLE motebit_hosts (
    host TEXT NOT NULL,
    motebit_id TEXT NOT NULL,
    public_key VARCHAR NOT NULL,
    binding VARCHAR NOT NULL,
    method VARCHAR NOT NULL,
    url TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    valid BOOLEAN NOT NULL,
    reason VARCHAR NOT NULL,
    tries INTEGER NOT NULL,
    verified_at BIGINT NOT NULL,
    next_at BIGINT,
    PRIMARY KEY (host)
);
CREATE INDEX motebit_hosts_due ON motebit_hosts (next_at, host);
CREATE TABLE outputs (
    txid BLOB NOT NULL,
    vout BIGINT NOT NULL,
    satoshis BIGINT NOT NULL,
    PRIMARY KEY (txid, vout)
);
CREATE TABLE parents (
    txid BLOB NOT NULL,
    raw BLOB NOT NULL,
    PRIMARY KEY (txid)
);
CREATE TABLE pending (
    chain TEXT NOT NULL,
    place BIGINT NOT NULL,
    height INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    tx_index INTEGER NOT NULL,
    txid BLOB NOT NULL,
    vout BIGINT,
    spent_txid BLOB,
    spent_vout BIGINT,
    card BLOB,
    valid BOOLEAN NOT NULL,
    reasons TEXT,
    owner TEXT,
    signer TEXT,
    pointer TEXT,
    anchor TEXT,
    anchor_digest BLOB,
    registration TEXT,
    type VARCHAR,
    status VARCHAR,
    at_txid BLOB,
    at_vout BIGINT,
    at_offset BIGINT,
    at_satoshis BIGINT,
    holder TEXT,
    map TEXT,
    winner_card BLOB,
    winner_txid BLOB,
    winner_vout BIGINT,
    updated_height INTEGER,
    created_height INTEGER,
    PRIMARY KEY (chain, place)
);
CREATE INDEX pending_by_registration ON pending (registration);
CREATE INDEX pending_by_tx ON pending (txid);
CREATE TABLE pending_cards (
    chain TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (chain, sha256)
);
CREATE TABLE quotes (
    feed TEXT NOT NULL,
    since BIGINT NOT NULL,
    at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    rank INTEGER NOT NULL,
    base TEXT NOT NULL,
    source TEXT NOT NULL,
    rates TEXT NOT NULL,
    PRIMARY KEY (feed, since)
);
CREATE TABLE requests (
    txid BLOB NOT NULL,
    client TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    tries INTEGER NOT NULL,
    next_at BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (txid)
);
CREATE INDEX requests_open ON requests (state, next_at);
CREATE TABLE servings (
    locator TEXT NOT NULL,
    since BIGINT NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (locator, since)
);
CREATE TABLE sightings (
    chain TEXT NOT NULL,
    txid BLOB NOT NULL,
    vout BIGINT NOT NULL,
    locator TEXT NOT NULL,
    digest BLOB NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (chain, txid, vout)
);
CREATE INDEX sightings_by_digest ON sightings (locator, digest);
CREATE INDEX sightings_by_locator ON sightings (locator, seen_at);
CREATE TABLE state_lines (
    chain TEXT NOT NULL,
    id TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (chain, id)
)
 WITHOUT ROWID;
CREATE TABLE submissions (
    chain TEXT NOT NULL,
    txid BLOB NOT NULL,
    raw BLOB NOT NULL,
    height INTEGER NOT NULL,
    steak TEXT,
    beef BLOB,
    sent BOOLEAN NOT NULL,
    PRIMARY KEY (chain, txid)
);
CREATE INDEX submissions_by_height ON submissions (chain, height);
CREATE TABLE subscriptions (
    id VARCHAR NOT NULL,
    client TEXT NOT NULL,
    url TEXT NOT NULL,
    search TEXT NOT NULL,
    base TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    since_seq BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    failing_since BIGINT,
    next_at BIGINT,
    ended_at BIGINT,
    reason VARCHAR NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX subscriptions_by_client ON subscriptions (client);
CREATE INDEX subscriptions_due ON subscriptions (next_at);
CREATE TABLE coinbases (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    raw BLOB NOT NULL,
    reserved BLOB NOT NULL,
    bump BLOB NOT NULL,
    PRIMARY KEY (chain, height),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE TABLE deliveries (
    subscription VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    body BLOB,
    changes INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    tried_at BIGINT,
    PRIMARY KEY (subscription, sequence),
    FOREIGN KEY(subscription) REFERENCES subscriptions (id) ON DELETE CASCADE
);
CREATE TABLE events (
    chain TEXT NOT NULL,
    place BIGINT NOT NULL,
    height INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    tx_index INTEGER NOT NULL,
    txid BLOB NOT NULL,
    vout BIGINT,
    spent_txid BLOB,
    spent_vout BIGINT,
    card BLOB,
    valid BOOLEAN NOT NULL,
    reasons TEXT,
    owner TEXT,
    signer TEXT,
    pointer TEXT,
    anchor TEXT,
    anchor_digest BLOB,
    registration TEXT,
    type VARCHAR,
    status VARCHAR,
    at_txid BLOB,
    at_vout BIGINT,
    at_offset BIGINT,
    at_satoshis BIGINT,
    holder TEXT,
    map TEXT,
    winner_card BLOB,
    winner_txid BLOB,
    winner_vout BIGINT,
    updated_height INTEGER,
    created_height INTEGER,
    PRIMARY KEY (chain, place),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE INDEX events_by_anchor ON events (anchor, anchor_digest, chain, place) WHERE anchor IS NOT NULL;
CREATE INDEX events_by_block ON events (chain, height);
CREATE INDEX events_by_card ON events (card) WHERE card IS NOT NULL;
CREATE INDEX events_by_registration ON events (registration, chain, place);
CREATE INDEX events_by_seat ON events (at_txid) WHERE at_txid IS NOT NULL;
CREATE INDEX events_by_tx ON events (txid);
CREATE INDEX events_loose ON events (chain, kind, place) WHERE registration IS NULL;
CREATE INDEX events_undecided ON events (chain, place) WHERE kind = 'undecided';
CREATE TABLE proofs (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    txid BLOB NOT NULL,
    raw BLOB NOT NULL,
    bump BLOB NOT NULL,
    PRIMARY KEY (chain, height, txid),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE INDEX proofs_by_tx ON proofs (txid);
CREATE TABLE reported (
    subscription VARCHAR NOT NULL,
    listing TEXT NOT NULL,
    registration TEXT NOT NULL,
    digest BLOB NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (subscription, listing),
    FOREIGN KEY(subscription) REFERENCES subscriptions (id) ON DELETE CASCADE
);
CREATE INDEX reported_by_registration ON reported (registration);
CREATE TABLE state_hashes (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (chain, height),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
);
CREATE TABLE submission_inputs (
    chain TEXT NOT NULL,
    spent_txid BLOB NOT NULL,
    spent_vout BIGINT NOT NULL,
    txid BLOB NOT NULL,
    PRIMARY KEY (chain, spent_txid, spent_vout),
    FOREIGN KEY(chain, txid) REFERENCES submissions (chain, txid) ON DELETE CASCADE
);
CREATE INDEX submission_inputs_by_tx ON submission_inputs (chain, txid);
CREATE TABLE topic_anchors (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    root BLOB NOT NULL,
    admitted INTEGER NOT NULL,
    tac BLOB NOT NULL,
    PRIMARY KEY (chain, height),
    FOREIGN KEY(chain, height) REFERENCES blocks (chain, height) ON DELETE CASCADE
)
 WITHOUT ROWID;
CREATE TABLE witness_paths (
    chain TEXT NOT NULL,
    height INTEGER NOT NULL,
    txid BLOB NOT NULL,
    bump BLOB NOT NULL,
    PRIMARY KEY (chain, height, txid),
    FOREIGN KEY(chain, height, txid) REFERENCES proofs (chain, height, txid) ON DELETE CASCADE
);
