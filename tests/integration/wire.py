"""An address that stays while what is behind it comes, goes and is cut off: a pod's name, a wire."""
import contextlib
import socket
import threading


class Wire:
    """Forwards to 127.0.0.1:port; where nobody is there a connection ends at once. cut(data): "request" loses what the client
    says with its connection, "answer" what is answered to it."""

    def __init__(self, port, cut=lambda data: None):
        self.port, self.cut = port, cut
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listening.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as server:
            client.settimeout(None)
            server.settimeout(None)
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()
            while data := client.recv(65536):
                lost = self.cut(data)
                if lost == "request":
                    break
                server.sendall(data)
                if lost == "answer":
                    client.shutdown(socket.SHUT_RDWR)
                    break
            for s in (client, server):
                s.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _back(server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
