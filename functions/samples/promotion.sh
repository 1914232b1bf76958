#!/bin/sh
# A promotion on a deployed stack, from event to apply, by AWS's own command line: sh promotion.sh STACK
# Where AWS_ENDPOINT_URL names an emulator: its program makes a file on this machine.
set -eu
stack=$1
repository=$(mktemp -d)
git -C "$repository" init -q -b main
cat > "$repository/Pulumi.yaml" <<PROGRAM
name: sample
runtime: yaml
resources:
  greeting: {type: 'local:index:File', properties: {path: greeting.txt, content: hello}}
outputs: {greeting: hello}
PROGRAM
git -C "$repository" add -A
git -C "$repository" -c user.name=Sample -c user.email=sample@localhost commit -q -m "A file"
commit=$(git -C "$repository" rev-parse HEAD)
uuid() { python3 -c 'import uuid; print(uuid.uuid4())'; }
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)

# send TOPIC DATA
send() {
  event="{\"specversion\": \"1.0\", \"id\": \"$(uuid)\", \"source\": \"/sample\", \"type\": \"$1\", \"time\": \"$now\", \"data\": $2}"
  TOPIC=$1 EVENT=$event BUS=$stack python3 -c 'import json, os
print(json.dumps([{"Source": "/sample", "DetailType": os.environ["TOPIC"], "Detail": os.environ["EVENT"], "EventBusName": os.environ["BUS"]}]))' > "$repository/entries.json"
  aws events put-events --entries "file://$repository/entries.json" --query FailedEntryCount --output text > /dev/null
}

send control.environments.v1.environment-created '{"environmentId": "sample", "tenantId": "acme", "projectId": "shop",
  "class": "development", "region": "here", "targets": [{"kind": "local", "reference": "this-machine"}]}'
promotion=$(uuid)
send delivery.promotions.v1.promotion-approved "{\"promotionId\": \"$promotion\", \"tenantId\": \"acme\",
  \"projectId\": \"shop\", \"environmentId\": \"sample\", \"releaseId\": \"$(uuid)\",
  \"approval\": {\"approvalId\": \"$(uuid)\", \"decidedBy\": \"ben\", \"decidedAt\": \"$now\"},
  \"program\": {\"repository\": \"$repository\", \"path\": \".\", \"commit\": \"$commit\"}, \"configRefs\": [], \"secretRefs\": []}"

echo "promotion $promotion was sent; its run:"
# At most three minutes: a stack that has just been deployed starts each function first.
for _ in $(seq 180); do
  rows=$(aws dynamodb scan --table-name "$stack-ProvisioningRuns" --consistent-read --query 'Items[].body.S' --output json)
  if ROWS=$rows PROMOTION=$promotion python3 -c 'import json, os, sys
runs = [json.loads(row) for row in json.loads(os.environ["ROWS"]) if os.environ["PROMOTION"] in row]
state = runs[0]["state"]["state"] if runs else ""
if state in ("Applied", "Failed", "Cancelled"):
    run = runs[0]
    print(run["id"], state, run["state"].get("message", ""))
    for record in ("plan", "apply"):
        if run.get(record): print(record, "receipt: blobs/" + run[record]["link"]["receipt"])
    sys.exit(0 if state == "Applied" else 3)
sys.exit(1)'; then exit 0; elif [ $? -eq 3 ]; then exit 1; fi
  sleep 1
done
echo "it has not ended in time: see the dead letters and the logs of the functions" >&2
exit 1
