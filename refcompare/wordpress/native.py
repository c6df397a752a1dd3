"""Workers on this machine's PHP, inside bubblewrap."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.results import Environment
from refcompare.sandbox import Mount, Sandbox, can_forbid_execution
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.php import Php
from refcompare.wordpress.php_settings import extension_lines, php_settings
from refcompare.wordpress.runtime import (
    ENTER,
    WORKER_ENVIRONMENT,
    WRITABLE_BYTES,
    end_process,
    signalled,
    worker_command,
)
from refcompare.wordpress.site import Site


@dataclass(frozen=True, slots=True)
class NativeRuntime:
    """Workers over an installed site, on the PHP of this machine, confined by bubblewrap."""

    site: Site
    php: Php
    grader: Grader

    @property
    def environment(self) -> Environment:
        """What grades here."""
        return Environment(
            wordpress=self.site.release.version,
            wordpress_digest=self.site.digest,
            php=self.php.version,
            php_digest=self.php.digest,
            sqlite=self.php.sqlite,
            grader_digest=self.grader.digest,
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker in a sandbox without ``/proc`` and without network.

        Raises EnvironmentFailure where this PHP could not be confined.
        """
        if self.php.loads_native_code and not can_forbid_execution():
            raise EnvironmentFailure(
                f"PHP {self.php.version} loads native code that a candidate could have written, and this "
                "system does not let the sandbox forbid it (bubblewrap may not mount): use PHP 8.3 or "
                "older, or `--runtime docker`"
            )
        settings = php_settings(extension_lines(self.php), self.php.extension_directory)
        command = worker_command(str(self.php.binary), settings)
        return Sandbox(
            mounts=self._mounts(),
            environment=WORKER_ENVIRONMENT,
            directory="/scratch",
            first=True,
        ).start(["/bin/sh", "-c", ENTER, "sh", *command])

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a worker; its namespace goes with it."""
        end_process(process)

    def ended_from_outside(self, process: subprocess.Popen[bytes]) -> str | None:
        """Say which signal ended the sandbox; none of a candidate's can."""
        return signalled(process)

    def _mounts(self) -> tuple[Mount, ...]:
        """The site read-only, with a fresh wp-content over it that holds the site's own directories.

        Files that lie directly in a writable directory are for the worker to copy, as in a container.
        """
        content = self.site.root / "wp-content"
        mounts = [
            Mount("/scratch", size=WRITABLE_BYTES),
            Mount("/tmp", size=WRITABLE_BYTES),  # noqa: S108 (a path inside the sandbox)
            Mount("/snapshot.sqlite", self.site.database),
            Mount("/wp-cli.phar", self.site.release.wp_cli),
            Mount("/grader", self.grader.path),
            Mount("/site", self.site.root),
            Mount("/site/wp-content", size=WRITABLE_BYTES),
            # Mounts of their own, since the place of a mount can be neither renamed nor removed.
            Mount("/site/wp-content/plugins", size=WRITABLE_BYTES),
            Mount("/site/wp-content/themes", size=WRITABLE_BYTES),
        ]
        if not self.php.binary.is_relative_to("/usr"):
            mounts.append(self._php_mount())
        for entry in sorted(content.iterdir()):
            if entry.name in ("plugins", "themes"):
                inner = [(f"{entry.name}/{child.name}", child) for child in sorted(entry.iterdir())]
            elif entry.name == "database":
                continue
            else:
                inner = [(entry.name, entry)]
            for name, path in inner:
                above = "/site/wp-content" if path.is_dir() else "/site-content"
                mounts.append(Mount(f"{above}/{name}", path))
        return tuple(mounts)

    def _php_mount(self) -> Mount:
        """A PHP that is not the system's, with the directory that holds its ``bin`` and libraries."""
        prefix = self.php.binary.parent.parent
        if any(path == prefix or prefix in path.parents for path in (Path.home(), Path.cwd())):
            raise EnvironmentFailure(
                f"The PHP at {self.php.binary} cannot grade: candidates would see {prefix} with all that is "
                "in it; install PHP in a directory of its own, or use the system's"
            )
        return Mount(str(prefix), prefix)
