-- A promotion looks for the runs of its environment that haven't ended, however long the history is.
CREATE INDEX ProvisioningRuns_living ON ProvisioningRuns (tenant, environment) WHERE due IS NOT NULL;
