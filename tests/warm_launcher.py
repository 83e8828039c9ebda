"""Stands for Python in the sessions of tests: asks a warm Python for a copy of itself, or becomes Python.

A script without imports of its own beyond the interpreter's: it is run by ``python -I -S`` for every process
that such a session starts. What it is told comes from the folder it lies in; see ``warm_python``.
"""

import _socket
import marshal
import os
import signal
import sys

#: Of the signals that end or stir a process, those that can be handed on.
_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: More descriptors than a socket hands over at once (``SCM_MAX_FD``).
_TOO_MANY = 250


def main(script, *arguments):
    folder = os.path.dirname(os.path.abspath(script))
    conversation = _ask(folder, script, arguments)
    if conversation is None:
        _become_python(folder, script, arguments)
    _stand_for(conversation)


def _ask(folder, script, arguments):
    """A connection to a warm Python and its copy's number; None if none has one for this."""
    descriptors = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _is_inherited(fd)]
    if len(descriptors) > _TOO_MANY:
        return None
    for name in os.listdir(folder):
        if name.startswith("socket"):
            conversation = _ask_one(os.path.join(folder, name), descriptors, (script, *arguments))
            if conversation is not None:
                return conversation
    return None


def _ask_one(address, descriptors, arguments):
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(address)
        _send(connection, descriptors, arguments)
        answer = _line(connection)
    except OSError:
        return None
    if not answer.isdigit():
        connection.close()
        return None
    for fd in descriptors:  # who waits for the end of what is written there waits for the copy alone
        os.close(fd)
    return connection, int(answer)


def _is_inherited(fd):
    try:
        return os.get_inheritable(fd)
    except OSError:  # it was the folder's own, which is closed again
        return False


def _send(connection, descriptors, arguments):
    told = marshal.dumps(
        {
            "arguments": list(arguments),
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "descriptors": descriptors,
            "leads": os.getsid(0) == os.getpid(),
            "group": os.getpgid(0),
            "ignores_interrupts": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        }
    )
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
    connection.sendmsg([len(told).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    while told:
        told = told[connection.send(told) :]


def _line(connection):
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            return b""
        line += part
    return line.strip()


def _become_python(folder, script, arguments):
    with open(os.path.join(folder, "interpreter"), encoding="utf-8") as file:
        interpreter = file.read()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which this one's start has changed
        signal.signal(number, signal.SIG_DFL)
    arguments = list(arguments)
    if "-c" in arguments[:-1]:  # its processes are to come here too
        code = arguments.index("-c") + 1
        arguments[code] = f"import sys; sys.executable = {script!r}; {arguments[code]}"
    os.execv(interpreter, [interpreter, *arguments])


def _stand_for(conversation):
    """Hand signals on until the copy has ended, and end as it did."""
    connection, pid = conversation
    for number in _HANDED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: _hand_on(pid, number))
    status = int(_line(connection) or 9)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _hand_on(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has ended, which is about to be told
        return


if __name__ == "__main__":
    main(*sys.argv)
