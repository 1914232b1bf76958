//! The provider's schema, as program languages want it.

use serde_json::{Value, json};

/// The provider's version; a semantic one, as Pulumi wants it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The type of a service.
pub(crate) const SERVICE: &str = "local:index:Service";
/// The type of a file.
pub(crate) const FILE: &str = "local:index:File";

pub(crate) fn schema() -> String {
    let health = json!({"$ref": "#/types/local:index:Health"});
    let service_inputs = json!({
        "name": text("What the service is called on this machine; made from the resource's URN when absent. A change replaces it."),
        "command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments; no shell is involved."},
        "replicas": {"type": "integer", "description": "How many processes of the command there shall be; 1 when absent."},
        "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables of the processes' environment."},
        "secretEnv": {"type": "object", "additionalProperties": {"type": "string"}, "secret": true, "description": "Secret variables of the processes' environment."},
        "workingDirectory": text("Where the processes run: absolute, or below the environment's root folder; a folder of the service's own when absent."),
        "version": text("A label of what runs; a change starts the processes anew."),
        "health": health,
        "stopTimeoutSeconds": {"type": "number", "description": "How long a process may take to end before it is killed; 10 when absent."},
    });
    let service_outputs = json!({
        "pids": {"type": "array", "items": {"$ref": "#/types/local:index:Process"}, "description": "The living processes."},
        "endpoint": text("Where the service answers; empty without a health check."),
        "endpoints": {"type": "array", "items": {"type": "string"}, "description": "Where the service answers, each replica if they have ports of their own."},
        "logDirectory": text("The folder with each replica's output."),
        "status": text("running, degraded, unhealthy or stopped."),
        "generation": {"type": "integer", "description": "How often it was created anew under its name."},
    });
    let file_inputs = json!({
        "path": text("Where the file is, below the environment's files. A change replaces it."),
        "content": text("The whole text; may be a secret."),
        "mode": text("Permissions in octal, in quotes; \"0644\" when absent, \"0600\" for a secret."),
    });
    let file_outputs = json!({
        "absolutePath": text("Where the file is on this machine."),
        "sha256": text("The digest of the content; a secret if the content is one."),
        "size": {"type": "integer", "description": "The content's length in bytes."},
        "generation": {"type": "integer", "description": "How often it was created anew at its path."},
    });
    json!({
        "name": "local",
        "version": VERSION,
        "description": "Services and files on this machine.",
        "types": {
            "local:index:Health": object("How to ask a service whether it works.", json!({
                "tcp": {"$ref": "#/types/local:index:TcpHealth"},
                "http": {"$ref": "#/types/local:index:HttpHealth"},
                "timeoutSeconds": {"type": "number", "description": "How long it may take to answer after its start; 30 when absent."},
                "perReplica": {"type": "boolean", "description": "Each replica has its own port: the port given plus its number (RUNTIME_CLOUD_REPLICA)."},
            }), &[]),
            "local:index:TcpHealth": object("It accepts connections.", json!({"port": {"type": "integer"}}), &["port"]),
            "local:index:HttpHealth": object("It answers GET with a status from 200 to 399.", json!({
                "url": {"type": "string"}, "port": {"type": "integer"}, "path": {"type": "string"},
            }), &[]),
            "local:index:Process": object("One living process.", json!({
                "replica": {"type": "integer"}, "pid": {"type": "integer"}, "startTime": {"type": "string"},
            }), &["replica", "pid", "startTime"]),
        },
        "provider": {},
        "resources": {
            SERVICE: resource(
                "Processes of one command, which outlive the run that starts them.",
                &service_inputs, &service_outputs, &["command"],
                &["name", "command", "replicas", "stopTimeoutSeconds", "pids", "endpoint", "endpoints", "logDirectory", "status", "generation"],
            ),
            FILE: resource(
                "A text file below the environment's root folder.",
                &file_inputs, &file_outputs, &["path", "content"],
                &["path", "content", "mode", "absolutePath", "sha256", "size", "generation"],
            ),
        },
    })
    .to_string()
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(description: &str, properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "description": description, "properties": properties, "required": required})
}

fn resource(description: &str, inputs: &Value, outputs: &Value, needed: &[&str], given: &[&str]) -> Value {
    let mut properties = inputs.as_object().cloned().unwrap_or_default();
    properties.extend(outputs.as_object().cloned().unwrap_or_default());
    json!({
        "description": description,
        "inputProperties": inputs,
        "requiredInputs": needed,
        "properties": properties,
        "required": given,
    })
}
