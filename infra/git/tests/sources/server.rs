//! A small web server in front of Git's own server program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the server does with a caller.
#[derive(Clone)]
pub enum Manner {
    /// Serves the repositories in a folder.
    Serve(PathBuf),
    /// The same, with the oldest protocol only, which gives out nothing but the tips of branches and tags.
    ServeOld(PathBuf),
    /// Answers with this status.
    Status(&'static str),
    /// Takes the call and says nothing.
    Silent,
}

pub struct Server {
    pub url: String,
    pub calls: Arc<AtomicUsize>,
}

impl Server {
    pub fn new(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/repo", listener.local_addr().unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        std::thread::spawn(move || {
            let mut silenced = Vec::new();
            for connection in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                match manner.clone() {
                    Manner::Silent => silenced.push(connection),
                    manner => drop(std::thread::spawn(move || answer(connection, &manner))),
                }
            }
        });
        Self { url, calls }
    }
}

fn answer(mut connection: TcpStream, manner: &Manner) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        head.iter()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let body = if header("transfer-encoding") == "chunked" {
        chunks(&mut reader)
    } else {
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        body
    };
    let old = matches!(manner, Manner::ServeOld(_));
    let reply = match manner {
        Manner::Serve(folder) | Manner::ServeOld(folder) => {
            let mut words = head[0].split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let variables = [
                ("REQUEST_METHOD", method),
                ("PATH_INFO", path),
                ("QUERY_STRING", query),
                ("CONTENT_TYPE", &header("content-type")),
                ("CONTENT_LENGTH", &body.len().to_string()),
                ("GIT_PROTOCOL", &if old { String::new() } else { header("git-protocol") }),
            ];
            backend(folder, &variables, &body)
        }
        Manner::Status(status) => {
            format!("HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
                .into()
        }
        Manner::Silent => Vec::new(),
    };
    let _ = connection.write_all(&reply);
}

fn chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

fn backend(folder: &Path, variables: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let body = body.to_vec();
    let writer = std::thread::spawn(move || drop(input.write_all(&body)));
    let output = child.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let content = &output[end + 4..];
    let length = content.len();
    let mut reply =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
            .into_bytes();
    reply.extend_from_slice(content);
    reply
}
