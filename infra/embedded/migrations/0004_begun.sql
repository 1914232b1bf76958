-- When something began: what is listed the newest first goes by it.
ALTER TABLE DeploymentSpecifications ADD COLUMN begun INTEGER;
ALTER TABLE ProvisioningRuns ADD COLUMN begun INTEGER;
ALTER TABLE WorkerPools ADD COLUMN begun INTEGER;
ALTER TABLE Quotas ADD COLUMN begun INTEGER;
ALTER TABLE CapacityLeases ADD COLUMN begun INTEGER;
ALTER TABLE RuntimeInventories ADD COLUMN begun INTEGER;
ALTER TABLE ObservedWorkloads ADD COLUMN begun INTEGER;
ALTER TABLE DriftFindings ADD COLUMN begun INTEGER;
ALTER TABLE ReconciliationProposals ADD COLUMN begun INTEGER;
ALTER TABLE Environments ADD COLUMN begun INTEGER;
ALTER TABLE EnvironmentSlots ADD COLUMN begun INTEGER;
ALTER TABLE LeaseRequests ADD COLUMN begun INTEGER;
-- The state holds its time as text, with a fraction of any length; milliseconds, cut off, are what is compared.
UPDATE ProvisioningRuns SET begun = (
  SELECT CAST(strftime('%s', substr(at, 1, 19)) AS INTEGER) * 1000
    + CASE WHEN substr(at, 20, 1) = '.' THEN CAST(substr(rtrim(substr(at, 21), 'Z') || '000', 1, 3) AS INTEGER) ELSE 0 END
  FROM (SELECT json_extract(CAST(body AS TEXT), '$.started_at') AS at)
);
CREATE INDEX ProvisioningRuns_newest ON ProvisioningRuns (tenant, begun, key) WHERE begun IS NOT NULL;
CREATE INDEX ProvisioningRuns_newest_of ON ProvisioningRuns (tenant, environment, begun, key) WHERE begun IS NOT NULL;
