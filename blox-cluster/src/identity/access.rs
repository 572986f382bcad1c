//! The rule of what a role may do.

use super::Role;

/// Right of a role to call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// May call it.
    Yes,
    /// May call it for its own jobs, or as its own node.
    Own,
    /// May not call it.
    No,
}

/// Kind of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Reads what all users may read.
    Read,
    /// Submits, changes or reads the output of a job.
    Job,
    /// Changes nodes.
    Operate,
    /// Changes rights, the policy or the scheduler.
    Rule,
    /// A stream of a node.
    Node,
    /// Concerns only the caller's own certificate.
    Self_,
}

/// Methods that clients and nodes call, as `Service/Method`. A method that is missing here is for
/// admins only.
const METHODS: &[(&str, Kind)] = &[
    ("NodeLink/Link", Kind::Node),
    ("NodeLink/Logs", Kind::Node),
    ("Jobs/Submit", Kind::Job),
    ("Jobs/SubmitMany", Kind::Job),
    ("Jobs/Change", Kind::Job),
    ("Jobs/ChangeMany", Kind::Job),
    ("Jobs/Logs", Kind::Job),
    ("Jobs/List", Kind::Read),
    ("Jobs/Nodes", Kind::Read),
    ("Jobs/When", Kind::Read),
    ("Jobs/Accounts", Kind::Read),
    ("Jobs/Offers", Kind::Operate),
    ("Jobs/Drain", Kind::Operate),
    ("Jobs/Resume", Kind::Operate),
    ("Jobs/Remove", Kind::Operate),
    ("Jobs/Down", Kind::Operate),
    ("Access/WhoAmI", Kind::Self_),
    ("Access/Renew", Kind::Self_),
    ("Jobs/Stop", Kind::Rule),
    ("Access/CreateToken", Kind::Rule),
    ("Access/Revoke", Kind::Rule),
];

/// Returns the right of a role to call a method, as `Service/Method`.
pub fn right(method: &str, role: Role) -> Right {
    let found = METHODS.iter().find(|(name, _)| *name == method);
    let kind = found.map_or(Kind::Rule, |(_, kind)| *kind);
    match (kind, role) {
        (Kind::Self_, _) => Right::Yes,
        (Kind::Node, Role::Node) => Right::Own,
        (Kind::Node, _) | (_, Role::Node) => Right::No,
        (Kind::Read, _) => Right::Yes,
        (Kind::Job, Role::User) => Right::Own,
        (Kind::Job | Kind::Operate, Role::Operator) | (_, Role::Admin) => Right::Yes,
        (Kind::Job | Kind::Operate | Kind::Rule, _) => Right::No,
    }
}

/// Returns true if calls of a method are recorded also if they are allowed.
pub fn is_recorded(method: &str) -> bool {
    let found = METHODS.iter().find(|(name, _)| *name == method);
    let kind = found.map_or(Kind::Rule, |(_, kind)| *kind);
    kind != Kind::Read && method != "Access/WhoAmI"
}

#[cfg(test)]
mod tests {
    use super::*;
    use Right::{No, Own, Yes};

    /// Rights of viewer, user, operator, admin and node.
    const TABLE: &[(&str, [Right; 5])] = &[
        ("NodeLink/Link", [No, No, No, No, Own]),
        ("NodeLink/Logs", [No, No, No, No, Own]),
        ("Jobs/Submit", [No, Own, Yes, Yes, No]),
        ("Jobs/SubmitMany", [No, Own, Yes, Yes, No]),
        ("Jobs/Change", [No, Own, Yes, Yes, No]),
        ("Jobs/ChangeMany", [No, Own, Yes, Yes, No]),
        ("Jobs/Logs", [No, Own, Yes, Yes, No]),
        ("Jobs/List", [Yes, Yes, Yes, Yes, No]),
        ("Jobs/Nodes", [Yes, Yes, Yes, Yes, No]),
        ("Jobs/When", [Yes, Yes, Yes, Yes, No]),
        ("Jobs/Accounts", [Yes, Yes, Yes, Yes, No]),
        ("Jobs/Offers", [No, No, Yes, Yes, No]),
        ("Jobs/Drain", [No, No, Yes, Yes, No]),
        ("Jobs/Resume", [No, No, Yes, Yes, No]),
        ("Jobs/Remove", [No, No, Yes, Yes, No]),
        ("Jobs/Down", [No, No, Yes, Yes, No]),
        ("Access/WhoAmI", [Yes, Yes, Yes, Yes, Yes]),
        ("Access/Renew", [Yes, Yes, Yes, Yes, Yes]),
        ("Jobs/Stop", [No, No, No, Yes, No]),
        ("Access/CreateToken", [No, No, No, Yes, No]),
        ("Access/Revoke", [No, No, No, Yes, No]),
        ("Jobs/Unknown", [No, No, No, Yes, No]),
    ];

    #[test]
    fn each_role_has_the_rights_of_the_table() {
        for (method, rights) in TABLE {
            let found = Role::ALL.map(|role| right(method, role));
            assert_eq!(found, *rights, "{method}");
        }
        let listed: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        let tested: Vec<&str> = TABLE.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, tested[..tested.len() - 1]);
    }

    #[test]
    fn each_method_of_the_protocol_has_a_right() {
        use prost::Message;
        let set = prost_types_of(crate::wire::DESCRIPTOR);
        for method in set {
            let known = METHODS.iter().any(|(name, _)| *name == method);
            assert!(
                known || method == "Entry/Join",
                "{method}: add it to METHODS and to the table of this test"
            );
        }
        fn prost_types_of(bytes: &[u8]) -> Vec<String> {
            let set = Set::decode(bytes).unwrap();
            let files = set
                .file
                .into_iter()
                .filter(|f| f.package == "blox.cluster.v1");
            files
                .flat_map(|file| file.service)
                .flat_map(|service| {
                    let name = service.name;
                    let methods = service.method.into_iter();
                    methods.map(move |method| format!("{name}/{}", method.name))
                })
                .collect()
        }
    }

    /// The parts of a descriptor that name methods.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Set {
        #[prost(message, repeated, tag = "1")]
        file: Vec<File>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct File {
        #[prost(string, tag = "2")]
        package: String,
        #[prost(message, repeated, tag = "6")]
        service: Vec<Service>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Service {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        method: Vec<Method>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Method {
        #[prost(string, tag = "1")]
        name: String,
    }
}
