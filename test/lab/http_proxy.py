#!/usr/bin/env python3
"""An HTTP proxy that knows CONNECT and nothing else, and is as strict as those of companies and schools.

Usage: http_proxy.py HOST:PORT [--ports 443,563] [--login USER:PASSWORD] [--name NAME=IP]...

It leads to the given ports only (none: to nowhere), answers 407 to who does not log in as it wants, 403 to what it does not
allow, 502 to what it cannot reach. A name is looked up in what --name says. Prints a JSON line when it listens, and one per
request: what was asked for and how it was answered.
"""
import argparse, asyncio, base64, json

HEAD_BYTES_MAX, HEAD_S, DIAL_S = 8192, 5, 5
WORDS = {200: 'Connection established', 400: 'Bad Request', 403: 'Forbidden', 405: 'Method Not Allowed',
         407: 'Proxy Authentication Required', 502: 'Bad Gateway'}


def tell(event, **facts):
    print(json.dumps({'event': event, **facts}), flush=True)


async def copy(reader, writer):
    """Until one side ends; then both do."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Proxy:
    def __init__(self, options):
        self.ports = {int(port) for port in options.ports.split(',') if port}
        self.login = options.login and 'Basic ' + base64.b64encode(options.login.encode()).decode()
        self.names = dict(name.split('=') for name in options.name)

    def judge(self, head):
        """(status, host, port) of a request."""
        request, *lines = head.split('\r\n')
        fields = dict((name.lower(), value.strip()) for name, _, value in (line.partition(':') for line in lines))
        words = request.split(' ')
        if len(words) != 3 or not words[2].startswith('HTTP/1.'):
            return 400, '', 0
        if words[0] != 'CONNECT':
            return 405, '', 0
        host, _, port = words[1].rpartition(':')
        if not port.isdigit():
            return 400, '', 0
        if self.login and fields.get('proxy-authorization') != self.login:
            return 407, host, int(port)
        return (200 if int(port) in self.ports else 403), host, int(port)

    async def serve(self, reader, writer):
        try:
            head = await asyncio.wait_for(reader.readuntil(b'\r\n\r\n'), HEAD_S)
            status, host, port = self.judge(head.decode('latin-1'))
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.close()
            return
        there = None
        if status == 200:
            try:
                place = self.names.get(host, host.strip('[]'))
                there = await asyncio.wait_for(asyncio.open_connection(place, port), DIAL_S)
            except (OSError, asyncio.TimeoutError):
                status = 502
        tell('request', to=f'{host}:{port}', status=status)
        fields = 'Proxy-Authenticate: Basic realm="lab"\r\n' if status == 407 else ''
        writer.write(f'HTTP/1.1 {status} {WORDS[status]}\r\n{fields}\r\n'.encode())
        if there is None:
            writer.close()
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('listen', metavar='HOST:PORT')
    parser.add_argument('--ports', default='', help='that it leads to, with commas between [none]')
    parser.add_argument('--login', default='', metavar='USER:PASSWORD', help='who may use it [anybody]')
    parser.add_argument('--name', action='append', default=[], metavar='NAME=IP', help='what a name is')
    options = parser.parse_args()
    host, _, port = options.listen.rpartition(':')
    server = await asyncio.start_server(Proxy(options).serve, host, int(port), limit=HEAD_BYTES_MAX, reuse_address=True)
    tell('ready')
    await server.serve_forever()


asyncio.run(main())
