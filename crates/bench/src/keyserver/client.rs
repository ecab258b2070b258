//! A small client for HTTP: one connection, one request after the other.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit of a server for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept as long as the server keeps it. SKS closes it with each answer.
pub(super) struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// The answer of a server.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    pub(super) fn get(&mut self, path: &str) -> io::Result<Reply> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.exchange(request.as_bytes())
    }

    /// Posts a form.
    pub(super) fn post(&mut self, path: &str, form: &[u8]) -> io::Result<Reply> {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            self.address,
            form.len()
        )
        .into_bytes();
        request.extend_from_slice(form);
        self.exchange(&request)
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            BufReader::new(stream)
        };
        stream.get_mut().write_all(request)?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let no_http = || io::Error::new(io::ErrorKind::InvalidData, "this is no answer of HTTP");
        let mut words = line.split_whitespace();
        let version = words.next().ok_or_else(no_http)?.to_owned();
        let status = words.next().and_then(|word| word.parse().ok()).ok_or_else(no_http)?;
        let (mut length, mut keeps) = (None, version == "HTTP/1.1");
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(no_http());
            }
            let header = line.trim().to_ascii_lowercase();
            match header.split_once(':') {
                None if header.is_empty() => break,
                Some(("content-length", value)) => length = value.trim().parse().ok(),
                Some(("connection", value)) => keeps = value.trim() != "close",
                _ => {}
            }
        }
        let mut body = Vec::new();
        if let (Some(length), true) = (length, keeps) {
            body.resize(length, 0);
            stream.read_exact(&mut body)?;
            self.stream = Some(stream);
        } else {
            stream.read_to_end(&mut body)?;
        }
        Ok(Reply { status, body })
    }
}
