//! Real servers, each on a free port of this machine with a folder of its own.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use talaria_needs::free_port;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the value.
struct Running {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Running {
    /// Starts a server. `command` gets a folder and a port.
    fn start(command: impl FnOnce(&Path, u16) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = command(folder.path(), address.port());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut running = Self { child: command.spawn().unwrap(), address, folder };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = running.child.try_wait().unwrap();
            let log = || fs::read_to_string(running.folder.path().join("log")).unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", log());
            assert!(begun.elapsed() < PATIENCE, "the server does not listen: {}", log());
            thread::sleep(Duration::from_millis(50));
        }
        running
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a program is there. Tests without their server say so.
fn is_there(program: &Path) -> bool {
    let there = program.exists();
    if !there {
        let is_s3 = program.ends_with("versitygw");
        talaria_needs::left_out(if is_s3 { "the S3 server" } else { "a server of Debian's" });
    }
    there
}

/// The S3 server that scripts/s3-server builds: Versity S3 Gateway, with an administrator and a
/// client who owns the buckets.
pub(super) struct S3(Running);

impl S3 {
    fn peer(program: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/s3/bin").join(program)
    }

    pub(super) fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new())
    }

    /// With TLS, and a certificate for `localhost` that no system trusts.
    pub(super) fn start_with_tls() -> Option<Self> {
        Self::start_with(|folder| {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
            openssl.args(["-nodes", "-days", "2", "-subj", "/CN=localhost"]);
            openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
            openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
            openssl.args(["-keyout", "tls.key", "-out", "tls.pem"]).current_dir(folder);
            let made = openssl.output().unwrap();
            assert!(made.status.success(), "{made:?}");
            let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
            vec!["--cert".into(), file("tls.pem"), "--key".into(), file("tls.key")]
        })
    }

    fn start_with(options: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let server = Self::peer("versitygw");
        if !is_there(&server) {
            return None;
        }
        let s3 = Self(Running::start(|folder, port| {
            for name in ["objects", "versions", "attributes", "accounts"] {
                fs::create_dir(folder.join(name)).unwrap();
            }
            let mut command = Command::new(&server);
            command.args(["--port", &format!("127.0.0.1:{port}")]);
            command.args(["--access", "administrator", "--secret", "secret"]);
            command.args(options(folder));
            command.arg("--iam-dir").arg(folder.join("accounts")).arg("posix");
            command.arg("--versioning-dir").arg(folder.join("versions"));
            command.arg("--sidecar").arg(folder.join("attributes")).arg(folder.join("objects"));
            command
        }));
        s3.administer(&[
            "create-user",
            "--access",
            "client",
            "--secret",
            "password",
            "--role",
            "user",
        ]);
        Some(s3)
    }

    fn administer(&self, args: &[&str]) {
        let mut command = Command::new(Self::peer("versitygw"));
        command.args(["admin", "--access", "administrator", "--secret", "secret"]);
        command.args(["--endpoint-url", &self.endpoint(), "--allow-insecure"]).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The file with the certificate, if there is TLS.
    pub(super) fn certificate(&self) -> PathBuf {
        self.0.path("tls.pem")
    }

    fn endpoint(&self) -> String {
        if self.certificate().exists() {
            format!("https://localhost:{}", self.0.address.port())
        } else {
            format!("http://{}", self.0.address)
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("s3://{path}?endpoint={}", self.endpoint())
    }

    /// The variables of the client.
    pub(super) fn env() -> Vec<(&'static str, String)> {
        Self::env_of("client", "password")
    }

    fn env_of(access: &str, secret: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", access.into()),
            ("AWS_SECRET_ACCESS_KEY", secret.into()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
        ]
    }

    /// Runs a script of the administrator, for whom `s3` is the connection.
    fn script(&self, text: &str) -> String {
        let begin = format!(
            "import boto3\ns3 = boto3.client('s3', endpoint_url='{}', region_name='us-east-1')\n",
            self.endpoint()
        );
        let mut python = Command::new(Self::peer("python"));
        python.args(["-c", &(begin + text)]).envs(Self::env_of("administrator", "secret"));
        if self.certificate().exists() {
            python.env("AWS_CA_BUNDLE", self.certificate());
        }
        let output = python.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn bucket(&self, name: &str, locked: bool) {
        if locked {
            self.script(&format!(
                "s3.create_bucket(Bucket='{name}', ObjectLockEnabledForBucket=True)\n\
                 s3.put_object_lock_configuration(Bucket='{name}', ObjectLockConfiguration={{\n\
                 'ObjectLockEnabled': 'Enabled',\n\
                 'Rule': {{'DefaultRetention': {{'Mode': 'COMPLIANCE', 'Days': 30}}}}}})"
            ));
        } else {
            self.script(&format!("s3.create_bucket(Bucket='{name}')"));
        }
        self.administer(&["change-bucket-owner", "--bucket", name, "--owner", "client"]);
    }

    pub(super) fn policy(&self, bucket: &str, policy: &str) {
        self.script(&format!("s3.put_bucket_policy(Bucket='{bucket}', Policy='''{policy}''')"));
    }

    /// Tries to delete every version of every object, and returns how many the server refused to
    /// delete.
    pub(super) fn delete_versions(&self, bucket: &str) -> usize {
        let refused = self.script(&format!(
            "refused = 0\n\
             for v in s3.list_object_versions(Bucket='{bucket}')['Versions']:\n    \
                 try:\n        \
                     s3.delete_object(Bucket='{bucket}', Key=v['Key'], VersionId=v['VersionId'])\n    \
                 except s3.exceptions.ClientError:\n        \
                     refused += 1\n\
             print(refused)"
        ));
        refused.trim().parse().unwrap()
    }

    pub(super) fn remove_delete_markers(&self, bucket: &str) {
        self.script(&format!(
            "for m in s3.list_object_versions(Bucket='{bucket}')['DeleteMarkers']:\n    \
                 s3.delete_object(Bucket='{bucket}', Key=m['Key'], VersionId=m['VersionId'])"
        ));
    }
}

/// lighttpd with WebDAV and a password.
pub(super) struct WebDav(Running);

impl WebDav {
    pub(super) fn start() -> Option<Self> {
        let server = Path::new("/usr/sbin/lighttpd");
        if !is_there(server) || !is_there(Path::new("/usr/lib/lighttpd/mod_webdav.so")) {
            return None;
        }
        Some(Self(Running::start(|folder, port| {
            fs::create_dir(folder.join("root")).unwrap();
            fs::write(folder.join("users"), "alice:secret\n").unwrap();
            let folder = folder.display();
            let config = format!(
                r#"
server.modules = ("mod_auth", "mod_authn_file", "mod_webdav")
server.document-root = "{folder}/root"
server.port = {port}
server.bind = "127.0.0.1"
server.upload-dirs = ("{folder}")
webdav.activate = "enable"
auth.backend = "plain"
auth.backend.plain.userfile = "{folder}/users"
auth.require = ("/" => ("method" => "basic", "realm" => "dav", "require" => "valid-user"))
"#
            );
            let path = format!("{folder}/lighttpd.conf");
            fs::write(&path, config).unwrap();
            let mut command = Command::new(server);
            command.args(["-D", "-f", &path]);
            command
        })))
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path("root")
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("webdav://{}/{path}", self.0.address)
    }

    pub(super) fn env() -> Vec<(&'static str, String)> {
        vec![("TALARIA_WEBDAV_USER", "alice".into()), ("TALARIA_WEBDAV_PASSWORD", "secret".into())]
    }
}

/// sshd with a key for whoever runs the tests.
pub(super) struct Sftp(Running);

impl Sftp {
    pub(super) fn start() -> Option<Self> {
        let server = Path::new("/usr/sbin/sshd");
        if !is_there(server) || !is_there(Path::new("/usr/bin/ssh")) {
            return None;
        }
        // sshd of root wants a folder that its service makes.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let sftp = Self(Running::start(|folder, port| {
            fs::create_dir(folder.join("root")).unwrap();
            for name in ["host", "user"] {
                let key = folder.join(name);
                let made = Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(key)
                    .status();
                assert!(made.unwrap().success());
            }
            let shown = folder.display();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nPidFile none\n\
                 AuthorizedKeysFile {shown}/user.pub\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin prohibit-password\n\
                 MaxSessions 100\nMaxStartups 100\nSubsystem sftp internal-sftp\n"
            );
            let path = folder.join("sshd_config");
            fs::write(&path, config).unwrap();
            let mut command = Command::new(server);
            command.arg("-D").arg("-e").arg("-f").arg(path);
            command
        }));
        sftp.know_host();
        // ssh reads the configuration of the user's home folder, whatever HOME says.
        let folder = sftp.0.folder.path();
        let bin = folder.join("bin");
        fs::create_dir(&bin).unwrap();
        let config = format!(
            "UserKnownHostsFile {0}/known_hosts\nGlobalKnownHostsFile none\nIdentitiesOnly yes\n\
             IdentityFile {0}/user\nBatchMode yes\n",
            folder.display()
        );
        fs::write(folder.join("ssh_config"), config).unwrap();
        let script =
            format!("#!/bin/sh\nexec /usr/bin/ssh -F {}/ssh_config \"$@\"\n", folder.display());
        fs::write(bin.join("ssh"), script).unwrap();
        fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(sftp)
    }

    /// The user knows the key of the server.
    pub(super) fn know_host(&self) {
        let key = fs::read_to_string(self.0.path("host.pub")).unwrap();
        let line = format!("[127.0.0.1]:{} {key}", self.0.address.port());
        fs::write(self.0.path("known_hosts"), line).unwrap();
    }

    /// The user knows another key of the server.
    pub(super) fn forget_host(&self) {
        let key = fs::read_to_string(self.0.path("user.pub")).unwrap();
        let line = format!("[127.0.0.1]:{} {key}", self.0.address.port());
        fs::write(self.0.path("known_hosts"), line).unwrap();
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path("root")
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("sftp://{}{}/{path}?attempts=2", self.0.address, self.root().display())
    }

    pub(super) fn env(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![("PATH", format!("{}:{path}", self.0.path("bin").display()))]
    }
}
