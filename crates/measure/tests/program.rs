//! The program `talaria-bench`.

use std::process::Command;

#[test]
fn it_works_only_for_talaria_of_the_same_build() {
    for (build, why) in
        [(None, "a part of talaria"), (Some("0123456789abcdef"), "different builds")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talaria-bench"));
        command.args(["bench", "report", "."]).env_remove("TALARIA_BUILD");
        command.envs(build.map(|build| ("TALARIA_BUILD", build)));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}
