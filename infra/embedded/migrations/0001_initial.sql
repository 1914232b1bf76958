-- Rows of the aggregates: the same tables on every database, named as the specification names them.
CREATE TABLE DeploymentSpecifications (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX DeploymentSpecifications_of ON DeploymentSpecifications (tenant, environment);
CREATE INDEX DeploymentSpecifications_due ON DeploymentSpecifications (due) WHERE due IS NOT NULL;
CREATE TABLE ProvisioningRuns (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX ProvisioningRuns_of ON ProvisioningRuns (tenant, environment);
CREATE INDEX ProvisioningRuns_due ON ProvisioningRuns (due) WHERE due IS NOT NULL;
CREATE TABLE WorkerPools (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX WorkerPools_of ON WorkerPools (tenant, environment);
CREATE INDEX WorkerPools_due ON WorkerPools (due) WHERE due IS NOT NULL;
CREATE TABLE Quotas (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX Quotas_of ON Quotas (tenant, environment);
CREATE INDEX Quotas_due ON Quotas (due) WHERE due IS NOT NULL;
CREATE TABLE CapacityLeases (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX CapacityLeases_of ON CapacityLeases (tenant, environment);
CREATE INDEX CapacityLeases_due ON CapacityLeases (due) WHERE due IS NOT NULL;
CREATE TABLE RuntimeInventories (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX RuntimeInventories_of ON RuntimeInventories (tenant, environment);
CREATE INDEX RuntimeInventories_due ON RuntimeInventories (due) WHERE due IS NOT NULL;
CREATE TABLE ObservedWorkloads (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX ObservedWorkloads_of ON ObservedWorkloads (tenant, environment);
CREATE INDEX ObservedWorkloads_due ON ObservedWorkloads (due) WHERE due IS NOT NULL;
CREATE TABLE DriftFindings (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX DriftFindings_of ON DriftFindings (tenant, environment);
CREATE INDEX DriftFindings_due ON DriftFindings (due) WHERE due IS NOT NULL;
CREATE TABLE ReconciliationProposals (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX ReconciliationProposals_of ON ReconciliationProposals (tenant, environment);
CREATE INDEX ReconciliationProposals_due ON ReconciliationProposals (due) WHERE due IS NOT NULL;
CREATE TABLE Environments (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX Environments_of ON Environments (tenant, environment);
CREATE INDEX Environments_due ON Environments (due) WHERE due IS NOT NULL;
CREATE TABLE EnvironmentSlots (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX EnvironmentSlots_of ON EnvironmentSlots (tenant, environment);
CREATE INDEX EnvironmentSlots_due ON EnvironmentSlots (due) WHERE due IS NOT NULL;
CREATE TABLE LeaseRequests (
  key TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, commit_id TEXT NOT NULL, tenant TEXT NOT NULL,
  environment TEXT, pool TEXT, state TEXT NOT NULL, due INTEGER, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX LeaseRequests_of ON LeaseRequests (tenant, environment);
CREATE INDEX LeaseRequests_due ON LeaseRequests (due) WHERE due IS NOT NULL;
-- Counters live apart from the aggregates, so that a write of an aggregate can't wipe them (Rule 4).
CREATE TABLE Counters (
  counter TEXT NOT NULL, name TEXT NOT NULL, free INTEGER NOT NULL, lim INTEGER NOT NULL,
  PRIMARY KEY (counter, name)
) WITHOUT ROWID;
CREATE TABLE Claims (name TEXT NOT NULL PRIMARY KEY, until INTEGER NOT NULL, commit_id TEXT NOT NULL) WITHOUT ROWID;
-- What was committed and has not left yet.
CREATE TABLE Letters (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL, parked TEXT);
-- Queues. A settled message keeps its id for a while, so that the same one isn't taken in twice.
CREATE TABLE Messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, grp TEXT NOT NULL,
  body BLOB NOT NULL, correlation TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'ready',
  visible_at INTEGER NOT NULL, lease TEXT, lease_until INTEGER, deliveries INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0, reason TEXT, sent_at INTEGER NOT NULL, settled_at INTEGER
);
CREATE INDEX Messages_ready ON Messages (queue, grp, seq) WHERE state = 'ready';
CREATE INDEX Messages_settled ON Messages (settled_at) WHERE settled_at IS NOT NULL;
-- Every event that was on the bus.
CREATE TABLE Events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, source TEXT NOT NULL, topic TEXT NOT NULL, tenant TEXT,
  at INTEGER NOT NULL, envelope BLOB NOT NULL, UNIQUE (source, id)
);
CREATE TABLE Schedules (name TEXT NOT NULL PRIMARY KEY, window INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE ConfigValues (
  tenant TEXT NOT NULL, ref TEXT NOT NULL, version INTEGER NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (tenant, ref, version)
) WITHOUT ROWID;
