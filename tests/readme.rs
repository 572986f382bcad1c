//! What the README shows is what the program prints.

mod support;

use support::good;

#[test]
fn commands_print_what_the_readme_shows() {
    let readme = include_str!("../README.md");
    let mut shown = 0;
    for block in readme.split("```text\n$ blox ").skip(1) {
        let (command, rest) = block.split_once('\n').unwrap();
        let (expected, _) = rest.split_once("```").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let seen = good(dir.path(), &command.replace('\'', ""));
        assert_eq!(seen.out, expected, "{command} prints\n{}", seen.out);
        shown += 1;
    }
    assert_eq!(shown, 3);
}
