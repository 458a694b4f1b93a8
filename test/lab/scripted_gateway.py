#!/usr/bin/env python3
"""A home router's port mapping as a test wants it, where miniupnpd would be too good. Maps nothing: it only says so.

    scripted_gateway.py natpmp ADDRESS second-nat   grants all, and says that its own outside address is 100.64.0.7
    scripted_gateway.py natpmp ADDRESS nonsense     answers of every wrong kind, the same question never twice the same
    scripted_gateway.py upnp ADDRESS permanent      knows no leases (error 725); keeps a table

ADDRESS is the router's inside one. Prints a JSON line per request, and {"event": "ready"} when it listens.
"""
import http.server, json, re, socket, socketserver, struct, sys, threading, time

STARTED = time.monotonic()


def tell(**what):
    print(json.dumps(what), flush=True)


def nonsense(request, count):
    """RFC 6886 says 12 bytes for the address and 16 for a mapping, with the operation + 128."""
    _, operation = struct.unpack('!BB', request[:2])
    epoch = int(time.monotonic() - STARTED)
    if operation == 0:
        return struct.pack('!BBHI4s', 0, 128, 0, epoch, socket.inet_aton('0.0.0.0'))
    inside, _ = struct.unpack('!HH', request[4:8])
    whole = struct.pack('!BBHIHHI', 0, 130, 0, epoch, inside, inside, 3600)
    kinds = [whole[:3], b'', whole[:2] + b'\xff\xff' + whole[4:], struct.pack('!BBHIHHI', 0, 130, 0, epoch, 1, 1, 1),
             struct.pack('!BBHIHHI', 0, 130, 0, epoch, inside, 0, 3600), struct.pack('!BBHIHHI', 0, 130, 0, epoch, inside, 22, 9),
             struct.pack('!BBHIHHI', 0, 130, 0, epoch, inside, inside, 0), b'\x00' * 500]
    return kinds[count % len(kinds)]


def serve_natpmp(address, mode):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.bind((address, 5351))
        tell(event='ready')
        count = 0
        while True:
            request, who = door.recvfrom(64)
            tell(event='request', bytes=request.hex())
            operation, epoch = request[1], int(time.monotonic() - STARTED)
            if mode == 'nonsense':
                door.sendto(nonsense(request, count), who)
                count += operation != 0
            elif operation == 0:
                door.sendto(struct.pack('!BBHI4s', 0, 128, 0, epoch, socket.inet_aton('100.64.0.7')), who)
            else:
                inside, outside, lease = struct.unpack('!HHI', request[4:12])
                door.sendto(struct.pack('!BBHIHHI', 0, 128 + operation, 0, epoch, inside, outside or inside, lease), who)


TABLE = {}
SERVICE = 'urn:schemas-upnp-org:service:WANIPConnection:1'
DESCRIPTION = f'''<?xml version="1.0"?><root xmlns="urn:schemas-upnp-org:device-1-0"><device>
<deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANDevice:1</deviceType><serviceList><service>
<serviceType>urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1</serviceType>
<serviceId>urn:upnp-org:serviceId:WANCommonIFC1</serviceId>
<controlURL>/common</controlURL><eventSubURL>/event</eventSubURL><SCPDURL>/scpd.xml</SCPDURL>
</service></serviceList><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANConnectionDevice:1</deviceType><serviceList><service>
<serviceType>{SERVICE}</serviceType><serviceId>urn:upnp-org:serviceId:WANIPConn1</serviceId>
<controlURL>/control</controlURL><eventSubURL>/event</eventSubURL><SCPDURL>/scpd.xml</SCPDURL>
</service></serviceList></device></deviceList></device></deviceList></device></root>'''


class Control(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, text, status=200):
        body = text.encode()
        self.send_response(status)
        self.send_header('Content-Type', 'text/xml')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(DESCRIPTION)

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length'])).decode()
        action = re.search(r'<u:(\w+)', body)[1]
        field = {name: value for name, value in re.findall(r'<(New\w+)>([^<]*)</', body)}
        tell(event='request', action=action, **field)
        port = field.get('NewExternalPort')
        if action == 'AddPortMapping' and field['NewLeaseDuration'] != '0':
            return self.refuse(725)
        if action == 'AddPortMapping':
            TABLE[port] = field
        if action in ('DeletePortMapping', 'GetSpecificPortMappingEntry') and port not in TABLE:
            return self.refuse(714)
        says = {'GetExternalIPAddress': {'NewExternalIPAddress': '11.99.0.17'},
                'GetStatusInfo': {'NewConnectionStatus': 'Connected', 'NewLastConnectionError': '', 'NewUptime': '100'},
                'GetSpecificPortMappingEntry': TABLE.get(port)}.get(action) or {}
        if action == 'DeletePortMapping':
            del TABLE[port]
        tell(event='table', ports=sorted(TABLE))
        inner = ''.join(f'<{name}>{value}</{name}>' for name, value in says.items())
        self.reply(f'<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>'
                   f'<u:{action}Response xmlns:u="{SERVICE}">{inner}</u:{action}Response></s:Body></s:Envelope>')

    def refuse(self, code):
        self.reply('<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>'
                   '<faultcode>s:Client</faultcode><faultstring>UPnPError</faultstring><detail>'
                   f'<UPnPError xmlns="urn:schemas-upnp-org:control-1-0"><errorCode>{code}</errorCode></UPnPError></detail>'
                   '</s:Fault></s:Body></s:Envelope>', 500)


class Server(socketserver.ThreadingTCPServer):  # http.server's own asks a name server who it is
    allow_reuse_address = daemon_threads = True


def serve_upnp(address):
    with Server((address, 5001), Control) as control, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        threading.Thread(target=control.serve_forever, daemon=True).start()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(('', 1900))
        group = socket.inet_aton('239.255.255.250') + socket.inet_aton(address)
        door.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        tell(event='ready')
        while True:
            search, who = door.recvfrom(2048)
            wanted = re.search(r'^ST: *(\S+)', search.decode(errors='replace'), re.M | re.I)
            if not wanted or 'InternetGatewayDevice:1' not in wanted[1]:
                continue
            door.sendto(f'HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=60\r\nST: {wanted[1]}\r\nUSN: uuid:scripted::{wanted[1]}\r\n'
                        f'LOCATION: http://{address}:5001/desc.xml\r\n\r\n'.encode(), who)


protocol, at, how = sys.argv[1:4]
serve_natpmp(at, how) if protocol == 'natpmp' else serve_upnp(at)
