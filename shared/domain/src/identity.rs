//! The identity that an environment's runs use: short-lived, and named, never given.

/// What an `identityRef` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity<'a> {
    /// A role of the account that the product runs in: `roles/NAME`.
    OwnRole(&'a str),
    /// A role of any account, by its ARN: `arn:aws:iam::123456789012:role/NAME`.
    Role(&'a str),
    /// A kubeconfig, by the reference of the secret that holds it: `kubeconfig/REFERENCE`.
    Kubeconfig(&'a str),
}

/// It names nothing of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "identityRef {0:?} names no identity: send EnvironmentCreated with roles/NAME, a role's ARN, or kubeconfig/SECRET"
)]
pub struct NoIdentity(pub String);

impl<'a> Identity<'a> {
    /// Reads an `identityRef`.
    pub fn parse(reference: &'a str) -> Result<Identity<'a>, NoIdentity> {
        let named = |name: &'a str| Some(name).filter(|n| !n.is_empty());
        let parts: Vec<&str> = reference.splitn(6, ':').collect();
        let found = match parts[..] {
            ["arn", partition, "iam", "", account, role] if !partition.is_empty() => {
                let digits = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
                role.strip_prefix("role/")
                    .and_then(named)
                    .filter(|_| digits)
                    .map(|_| Identity::Role(reference))
            }
            _ => match reference.split_once('/') {
                Some(("roles", name)) => named(name).map(Identity::OwnRole),
                Some(("kubeconfig", secret)) => named(secret).map(Identity::Kubeconfig),
                Some(_) | None => None,
            },
        };
        found.ok_or_else(|| NoIdentity(reference.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_role_or_a_kubeconfig_and_nothing_else() {
        let arn = "arn:aws-cn:iam::123456789012:role/teams/shop";
        assert_eq!(Identity::parse(arn), Ok(Identity::Role(arn)));
        assert_eq!(Identity::parse("roles/shop-staging"), Ok(Identity::OwnRole("shop-staging")));
        assert_eq!(Identity::parse("kubeconfig/shop/k8s"), Ok(Identity::Kubeconfig("shop/k8s")));
        for wrong in [
            "",
            "roles/",
            "shop",
            "role/shop",
            "kubeconfig/",
            "arn:aws:iam::123456789012:user/ben",
            "arn:aws:iam::12:role/shop",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:s3:::bucket",
        ] {
            assert_eq!(Identity::parse(wrong), Err(NoIdentity(wrong.to_owned())), "{wrong}");
        }
    }
}
