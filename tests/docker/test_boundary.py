"""What a candidate in a container can reach, as seen from inside."""

from __future__ import annotations

import json

import pytest

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, Limits
from refcompare.resources import grader_source
from refcompare.results import ErrorKind, Verdict
from refcompare.sandbox import _DENIED_AARCH64, _DENIED_X86_64
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.image import Image
from tests.docker.suite import make_test
from tests.docker.support import PASSES, derived, grading, look, shell

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def test_a_candidate_has_no_privilege_and_cannot_gain_one(thread: GradingThread) -> None:
    lines = look(thread, "return file( '/proc/self/status', FILE_IGNORE_NEW_LINES );")
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    none = "0000000000000000"
    assert [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [none] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in status["Uid"].split() + status["Gid"].split() + status["Groups"].split()


def test_a_candidate_can_write_where_it_can_natively_and_nowhere_else(thread: GradingThread) -> None:
    writable = look(
        thread,
        """
        set_error_handler( static fn() => true );
        $found = array();
        $pending = array( '/' );
        while ( $pending ) {
            $directory = array_pop( $pending );
            foreach ( scandir( $directory ) ?: array() as $name ) {
                $path = rtrim( $directory, '/' ) . '/' . $name;
                if ( '.' === $name || '..' === $name || '/proc' === $path || is_link( $path ) ) {
                    continue;
                }
                if ( is_dir( $path ) ) {
                    $pending[] = $path;
                }
                if ( is_dir( $path ) && is_writable( $path ) || is_file( $path ) && fopen( $path, 'r+' ) ) {
                    $found[] = $path;
                }
            }
        }
        restore_error_handler();
        sort( $found );
        return $found;
        """,
    )
    content = "/site/wp-content"
    directories = {"/scratch", "/tmp", content, f"{content}/plugins", f"{content}/themes"}
    # The worker's own copies, natively too, since the engine cannot mount files.
    copies = {
        f"{content}/{name}" for name in ("db.php", "index.php", "plugins/index.php", "themes/index.php")
    }
    assert directories <= set(writable) <= directories | copies | {"/scratch/output"}


def test_a_candidate_cannot_change_or_replace_a_plugin_or_theme_of_the_site(thread: GradingThread) -> None:
    tried = look(
        thread,
        """
        set_error_handler( static fn() => true );
        $plugin = WP_PLUGIN_DIR . '/sqlite-database-integration';
        $theme = get_theme_root() . '/' . get_stylesheet();
        $done = array(
            file_put_contents( $theme . '/theme.json', '{}' ), file_put_contents( $plugin . '/new.php', '' ),
            unlink( $plugin . '/load.php' ), chmod( $plugin, 0777 ), rename( $plugin, $plugin . '-away' ),
            rename( $theme, '/tmp/theme' ), rename( WP_PLUGIN_DIR, WP_CONTENT_DIR . '/elsewhere' ),
            symlink( '/tmp', $plugin ),
        );
        restore_error_handler();
        return $done;
        """,
    )
    assert tried == [False] * 8


def test_a_candidate_reaches_no_network(thread: GradingThread, runtime: DockerRuntime) -> None:
    answers = look(
        thread,
        """
        set_error_handler( static fn() => true );
        $code = $message = null;
        $tried = array();
        $addresses = array( 'tcp://192.0.2.1:80', 'tcp://172.17.0.1:22', 'udp://192.0.2.1:53' );
        foreach ( $addresses as $address ) {
            $tried[] = stream_socket_client( $address, $code, $message, 2 ) ? 'connected' : $message;
        }
        $tried[] = gethostbyname( 'example.org' );
        restore_error_handler();
        return $tried;
        """,
    )
    assert "connected" not in answers
    assert answers[3] == "example.org"
    interfaces = shell(runtime, "cat /proc/net/dev").stdout.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]


def test_nothing_of_the_engines_machine_shows_but_its_kernel(thread: GradingThread) -> None:
    assert look(thread, "return array( gethostname(), getenv( 'HOSTNAME' ) );") == ["sandbox", False]
    assert look(thread, "return file_get_contents( '/etc/resolv.conf' );") == "nameserver 127.0.0.1\n"
    paths = "'/dev/shm', '/dev/mqueue', '/var/run/docker.sock', '/etc/passwd', '/etc/shadow', '/sys/fs'"
    assert look(thread, f"return array_filter( array( {paths} ), 'file_exists' );") == []
    processes = "return count( array_filter( scandir( '/proc' ), 'ctype_digit' ) );"
    assert look(thread, processes) == 2  # the worker and the candidate


def test_a_worker_may_make_the_system_calls_that_a_native_one_may() -> None:
    rules = json.loads((grader_source() / "seccomp.json").read_text())["syscalls"]
    allowed = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    for denied in (_DENIED_X86_64, _DENIED_AARCH64):
        assert not allowed & set(denied)
    conditional = {name for rule in rules if "args" in rule for name in rule["names"]}
    assert conditional == {"socket", "prlimit64", "clone"}


def test_a_candidate_makes_unix_sockets_only_and_steers_nobody(thread: GradingThread) -> None:
    tried = look(
        thread,
        """
        set_error_handler( static fn() => true );
        $family = socket_create( AF_INET, SOCK_DGRAM, 0 ) ? 'made' : socket_strerror( socket_last_error() );
        $tried = array(
            $family, socket_create( AF_INET6, SOCK_STREAM, 0 ), stream_socket_server( 'tcp://[::1]:4711' ),
            proc_nice( 5 ), (bool) socket_create( AF_UNIX, SOCK_STREAM, 0 ),
        );
        restore_error_handler();
        return $tried;
        """,
    )
    assert tried == ["Address family not supported by protocol", False, False, False, True]


def test_an_assertions_callback_cannot_read_or_write_the_memory_that_holds_the_secret(
    thread: GradingThread,
) -> None:
    test = make_test(
        "attack", assertions=({"type": "returns_value", "target": "return acme();", "expected": "nothing"},)
    )
    attack = """
    function acme() {
        set_error_handler( static fn() => true );
        $found = array();
        $files = array( 'mem', 'environ', 'auxv', 'pagemap', 'syscall', 'stack', 'exe', 'io' );
        foreach ( array( 'self', 'thread-self', getmypid(), posix_getppid(), '1' ) as $process ) {
            foreach ( $files as $file ) {
                foreach ( array( 'r', 'r+', 'a' ) as $mode ) {
                    if ( fopen( "/proc/$process/$file", $mode ) ) {
                        $found[] = "$process/$file $mode";
                    }
                }
            }
            foreach ( glob( "/proc/$process/map_files/*" ) as $file ) {
                $library = str_contains( readlink( $file ), '/lib/' );
                if ( fopen( $file, 'r+' ) || ! $library && fopen( $file, 'r' ) ) {
                    $found[] = $file;
                }
            }
        }
        foreach ( array( '/proc/kcore', '/dev/mem', '/dev/kmem' ) as $file ) {
            if ( fopen( $file, 'r' ) ) {
                $found[] = $file;
            }
        }
        if ( scandir( '/proc/1/fd' ) || copy( PHP_BINARY, '/tmp/a' ) || copy( '/proc/self/exe', '/tmp/b' ) ) {
            $found[] = 'the worker';
        }
        restore_error_handler();
        return $found ? implode( ', ', $found ) : 'nothing';
    }
    """
    record = thread.grade(test, Candidate("reference", attack), Limits())
    assert record.verdict is Verdict.PASS, record


def test_a_candidate_cannot_end_or_stop_the_worker(thread: GradingThread) -> None:
    code = (
        "foreach ( array( 9, 19, 15, 2, 1, 10, 11 ) as $signal ) { posix_kill( posix_getppid(), $signal ); }"
    )
    record = thread.grade(PASSES, Candidate("reference", code), Limits(seconds=10))
    assert record.error_kind in (None, ErrorKind.TAMPERED)
    assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS


def test_memory_processes_and_processors_are_bounded(runtime: DockerRuntime) -> None:
    greedy = f"{runtime.image.php.binary} -n -d memory_limit=-1 -r 'str_repeat(chr(1), 1400 << 20);'; echo $?"
    assert shell(DockerRuntime(runtime.image, memory=0), greedy).stdout.strip() == "137"
    forks = shell(runtime, "i=0; while [ $i -lt 64 ]; do sleep 5 & i=$((i+1)); done; echo all")
    assert "all" not in forks.stdout
    assert "fork" in forks.stderr
    busy = '$end = microtime(true) + 2; while (microtime(true) < $end); echo getrusage()["ru_utime.tv_sec"],'
    busy += 'sprintf(".%06d", getrusage()["ru_utime.tv_usec"]);'
    half = shell(DockerRuntime(runtime.image, cpus=0.5), f"{runtime.image.php.binary} -n -r '{busy}'")
    assert float(half.stdout) < 1.4  # of 2 seconds


def test_the_root_is_read_only_and_nothing_written_can_be_executed(runtime: DockerRuntime) -> None:
    refused = shell(runtime, "touch /etc/x; touch /site/x; touch /x; echo done")
    assert refused.stderr.count("Read-only file system") + refused.stderr.count("Permission denied") == 3
    script = "cp /bin/true /tmp/true && /tmp/true; echo $?; find / -xdev -perm /6000 -type f 2>/dev/null"
    assert shell(runtime, script).stdout.split() == ["126"]


def test_a_worker_refuses_to_start_where_its_memory_could_be_opened(image: Image, tidy: None) -> None:
    binary = image.php.binary
    with derived(image, f"RUN chmod 0755 {binary}") as readable:
        opened = shell(
            DockerRuntime(readable), f'{binary} -n -r \'var_dump((bool) fopen("/proc/self/mem", "r+"));\''
        )
        assert opened.stdout.strip() == "bool(true)"  # so the check below tells something
        with grading(DockerRuntime(readable)) as thread:
            record = thread.grade(PASSES, Candidate("reference"), Limits())
    assert record.error_kind is ErrorKind.INFRASTRUCTURE
    assert "does not confine a container as it was asked to: a process can open its own memory" in str(
        record.message
    )
