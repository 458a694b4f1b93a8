#!/bin/bash
# A small internet in network namespaces: one public network, up to eight sites behind routers. README.md explains it.
#
#   nat_lab.sh up [SITE=KIND[:POLICY]]...     make the lab; sites not named are `masquerade:drop`
#   nat_lab.sh nat SITE KIND [POLICY]         change a router
#   nat_lab.sh upstream SITE open|closed      closed: the provider drops what nobody inside asked for (as behind a
#                                             carrier's NAT); a port mapping on the router then looks fine and is no use
#   nat_lab.sh egress SITE all|web|none       what its hosts may send out: web: TCP to port 443 alone, the rest is dropped;
#                                             none: nothing, but the router itself may (a proxy that runs there)
#   nat_lab.sh line SITE up|down              down: nothing passes between the site and the public network; the router
#                                             keeps what it knows, as when a cable is pulled
#   nat_lab.sh forget SITE                    the router knows none of its connections any more (it was switched off, or
#                                             took them for idle): what they still send is dropped without a word
#   nat_lab.sh renumber SITE                  the provider gives the site other IPv4 addresses; the router forgets too
#   nat_lab.sh exec PLACE COMMAND...          run something in wan, router-SITE, or on a host: a, a2 (the second), b
#   nat_lab.sh env                            names and addresses as shell variables
#   nat_lab.sh status                         one line per site
#   nat_lab.sh down                           remove everything, also what a failed run left behind
#
# KIND    masquerade  port-preserving, endpoint-independent mapping (most home routers)
#         random      new external port per connection (endpoint-dependent mapping, "symmetric")
#         fullrandom  the same with fully random ports
#         dmz         masquerade, and unsolicited connections are handed to the first host (forwarded ports)
#         firewall    public addresses, nothing unsolicited comes in (the usual IPv6 case)
#         open        public addresses, no filter
#         IPv6 has public addresses in every kind: filtered in all but `dmz` and `open`.
# POLICY  drop | reject | accept: what an unsolicited TCP SYN from outside gets: silence, a reset, or the router's own
#         network stack (which answers with a reset and leaves a trace in connection tracking).
# Environment: LAB_PREFIX (lab), LAB_WAN (11.99.0), LAB_SITES ("a b", up to h), LAB_HOSTS per site (2).

. "$(dirname "${BASH_SOURCE[0]}")/lab_common.sh"

kinds="masquerade random fullrandom dmz firewall open"

make_wan() {
  local ns
  ns=$(ns_wan)
  ip netns add "$ns"
  ip -n "$ns" link set lo up
  ip -n "$ns" link add br0 type bridge mcast_snooping 0
  ip -n "$ns" link set br0 up
  ip -n "$ns" link add p0 type veth peer name p1
  ip -n "$ns" link set p1 master br0 up
  ip -n "$ns" link set p0 up
  ip -n "$ns" addr add "$(wan_addr 1)/24" dev p0
  ip -n "$ns" addr add "$(wan_addr 2)/24" dev p0
  ip -n "$ns" addr add "$WAN6::1/64" dev p0 nodad
  ip -n "$ns" addr add "$WAN6::2/64" dev p0 nodad
}

make_site() { # site
  local site=$1 router host n index
  router=$(ns_router "$site")
  index=$(site_index "$site")
  ip netns add "$router"
  ip -n "$router" link set lo up
  ip -n "$router" link add wan type veth peer name "w-$site" netns "$(ns_wan)"
  ip -n "$(ns_wan)" link set "w-$site" master br0 up
  ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
  ip -n "$router" addr add "$(router_wan "$site")/24" dev wan
  ip -n "$router" addr add "$WAN6::1$index/64" dev wan nodad
  ip -n "$router" link set wan up
  ip -n "$router" route add default via "$(wan_addr 1)"
  ip -n "$router" route add default via "$WAN6::1"
  ip -n "$router" link add lan type bridge mcast_snooping 0
  ip -n "$router" link set lan up
  ip -n "$router" addr add "$(lan6 "$site")::1/64" dev lan nodad
  for ((n = 1; n <= LAB_HOSTS; n++)); do
    host=$(ns_host "$site" "$n")
    ip netns add "$host"
    ip -n "$host" link set lo up
    ip -n "$router" link add "h$n" type veth peer name eth0 netns "$host"
    ip -n "$router" link set "h$n" master lan up
    ip -n "$host" link set eth0 up
    ip -n "$host" addr add "$(host_addr6 "$site" "$n")/64" dev eth0 nodad
    ip -n "$host" route add default via "$(lan6 "$site")::1"
  done
}

make_routes() { # every router and the public node know the way to every site's public networks
  local site other
  for site in $LAB_SITES; do
    for other in wan $LAB_SITES; do
      [[ $other == "$site" ]] && continue
      local ns
      [[ $other == wan ]] && ns=$(ns_wan) || ns=$(ns_router "$other")
      ip -n "$ns" route replace "$(lan_public "$site").0/24" via "$(router_wan "$site")"
      ip -n "$ns" route replace "$(lan6 "$site")::/64" via "$WAN6::1$(site_index "$site")"
    done
  done
}

address_lan() { # site: give router and hosts the IPv4 addresses of the site's kind
  local site=$1 lan n host
  lan=$(lan_of "$site")
  ip -n "$(ns_router "$site")" -4 addr flush dev lan
  ip -n "$(ns_router "$site")" addr add "$lan.1/24" dev lan
  for ((n = 1; n <= LAB_HOSTS; n++)); do
    host=$(ns_host "$site" "$n")
    ip -n "$host" -4 addr flush dev eth0
    ip -n "$host" addr add "$(host_addr "$site" "$n")/24" dev eth0
    ip -n "$host" route replace default via "$lan.1"
    ip -n "$host" neigh flush all
  done
}

write_rules() { # site: one table, rewritten as a whole; the chains named miniupnpd* are for port_map_gateway.sh
  local site=$1 kind policy translate='' handover='' unsolicited forwarded
  kind=$(site_get "$site" kind)
  policy=$(site_get "$site" policy)
  case $kind in
    masquerade | dmz) translate='meta nfproto ipv4 oifname "wan" masquerade' ;;
    random) translate='meta nfproto ipv4 oifname "wan" masquerade random' ;;
    fullrandom) translate='meta nfproto ipv4 oifname "wan" masquerade fully-random' ;;
  esac
  case $policy in
    drop) unsolicited=drop ;;
    reject) unsolicited='meta l4proto tcp reject with tcp reset' ;;
    accept) unsolicited=accept ;;
  esac
  forwarded=drop
  [[ $policy == reject ]] && forwarded=$unsolicited
  [[ $kind == open ]] && forwarded=accept && unsolicited=accept
  if [[ $kind == dmz ]]; then
    handover="meta nfproto ipv4 iifname \"wan\" meta l4proto { tcp, udp } dnat ip to $(host_addr "$site")"
    forwarded="meta nfproto ipv6 accept"
  fi
  in_ns "$(ns_router "$site")" nft -f - <<RULES
table inet fw
delete table inet fw
table inet fw {
  chain miniupnpd { }
  chain prerouting_miniupnpd { }
  chain postrouting_miniupnpd { }
  chain input { type filter hook input priority 0; policy accept;
    iifname "wan" ct state established,related accept
    iifname "wan" icmp type echo-request accept
    iifname "wan" meta l4proto ipv6-icmp accept
    iifname "wan" $unsolicited
    iifname "wan" drop
  }
  chain forward { type filter hook forward priority 0; policy accept;
    ct state established,related accept
    ct state invalid drop
    iifname "lan" accept
    iifname "wan" ct status dnat accept
    iifname "wan" jump miniupnpd
    iifname "wan" $forwarded
    iifname "wan" drop
  }
  chain prerouting { type nat hook prerouting priority -100; policy accept;
    jump prerouting_miniupnpd
    $handover
  }
  chain postrouting { type nat hook postrouting priority 100; policy accept;
    jump postrouting_miniupnpd
    $translate
  }
}
RULES
  in_ns "$(ns_router "$site")" conntrack -F >/dev/null 2>&1
}

set_nat() { # site kind [policy]
  local site=$1 kind=$2 policy=${3:-drop}
  need_site "$site"
  [[ " $kinds " == *" $kind "* ]] || fail "kind '$kind': one of $kinds"
  [[ $policy =~ ^(drop|reject|accept)$ ]] || fail "policy '$policy': drop, reject or accept"
  site_set "$site" kind "$kind"
  site_set "$site" policy "$policy"
  address_lan "$site"
  write_rules "$site"
}

set_upstream() { # site open|closed: after connection tracking, before translation
  local router
  need_site "$1"
  [[ $2 =~ ^(open|closed)$ ]] || fail "upstream '$2': open or closed"
  router=$(ns_router "$1")
  in_ns "$router" nft 'table inet provider; delete table inet provider'
  [[ $2 == open ]] && return
  in_ns "$router" nft -f - <<'RULES'
table inet provider {
  chain incoming { type filter hook prerouting priority -150; policy accept;
    iifname "wan" meta l4proto { tcp, udp } ct state new drop
  }
}
RULES
}

set_egress() { # site all|web|none: of what the router forwards
  local router allowed=''
  need_site "$1"
  [[ $2 =~ ^(all|web|none)$ ]] || fail "egress '$2': all, web or none"
  router=$(ns_router "$1")
  in_ns "$router" nft 'table inet egress; delete table inet egress'
  [[ $2 == all ]] && return
  [[ $2 == web ]] && allowed='iifname "lan" oifname "wan" tcp dport 443 accept'
  in_ns "$router" nft -f - <<RULES
table inet egress {
  chain outgoing { type filter hook forward priority -10; policy accept;
    $allowed
    iifname "lan" oifname "wan" drop
  }
}
RULES
}

set_line() { # site up|down
  local router
  need_site "$1"
  [[ $2 =~ ^(up|down)$ ]] || fail "line '$2': up or down"
  router=$(ns_router "$1")
  in_ns "$router" nft 'table inet line; delete table inet line'
  [[ $2 == up ]] && return
  in_ns "$router" nft -f - <<'RULES'
table inet line {
  chain incoming { type filter hook prerouting priority -310; policy accept; iifname "wan" drop; }
  chain outgoing { type filter hook postrouting priority 310; policy accept; oifname "wan" drop; }
}
RULES
}

forget() { # site
  local router
  need_site "$1"
  router=$(ns_router "$1")
  # else what comes from inside would be taken for connections that are new, and be translated as before
  in_ns "$router" sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0
  in_ns "$router" conntrack -F >/dev/null 2>&1
}

renumber() { # site
  local site=$1 router before
  need_site "$site"
  router=$(ns_router "$site")
  before=$(router_wan "$site")
  (($(renumbered "$site") < 10)) || fail "site '$site' was renumbered ten times: 'up' makes a new lab"
  site_set "$site" renumbered $(($(renumbered "$site") + 1))
  ip -n "$router" addr del "$before/24" dev wan
  ip -n "$router" addr add "$(router_wan "$site")/24" dev wan
  ip -n "$router" route replace default via "$(wan_addr 1)"
  make_routes
  address_lan "$site"
  forget "$site"
}

up() {
  local site setting kind policy
  need_tools ip nft conntrack sysctl
  for site in $LAB_SITES; do [[ $site =~ ^[a-h]$ ]] || fail "LAB_SITES: letters a to h, separated by blanks"; done
  [[ $LAB_HOSTS =~ ^[1-9]$ ]] || fail "LAB_HOSTS: 1 to 9"
  down
  mkdir -p "$LAB_STATE"
  printf 'LAB_WAN=%q\nLAB_SITES=%q\nLAB_HOSTS=%q\n' "$LAB_WAN" "$LAB_SITES" "$LAB_HOSTS" >"$LAB_STATE/lab.env"
  trap 'echo "nat_lab.sh: could not build the lab, removing it" >&2; down' ERR
  make_wan
  for site in $LAB_SITES; do make_site "$site"; done
  make_routes
  for site in $LAB_SITES; do
    kind=masquerade policy=drop
    for setting in "$@"; do
      [[ $setting == "$site"=* ]] || continue
      kind=${setting#*=} policy=drop
      [[ $kind == *:* ]] && policy=${kind#*:} kind=${kind%%:*}
    done
    set_nat "$site" "$kind" "$policy"
  done
  trap - ERR
}

down() { # ends what runs inside our namespaces, and nothing else
  local ns pid file deadline
  for file in "$LAB_STATE"/*.pid; do [[ -e $file ]] && daemon_stop "$(basename "$file" .pid)"; done
  for ns in $(all_ns); do
    for pid in $(ip netns pids "$ns"); do kill "$pid" 2>/dev/null || true; done
  done
  for ns in $(all_ns); do
    deadline=$((SECONDS + 2))
    while [[ -n $(ip netns pids "$ns") && $SECONDS -lt $deadline ]]; do sleep 0.1; done
    for pid in $(ip netns pids "$ns"); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$ns"
  done
  rm -rf "$LAB_STATE"
}

namespace_of() { # wan | router-SITE | SITE[N]
  case $1 in
    wan) ns_wan ;;
    router-?) need_site "${1#router-}"; ns_router "${1#router-}" ;;
    ?) need_site "$1"; ns_host "$1" 1 ;;
    ?[1-9]) need_site "${1%?}"; ns_host "${1%?}" "${1#?}" ;;
    *) fail "no place '$1': wan, router-SITE, SITE or SITE with a host number" ;;
  esac
}

print_env() {
  local site upper n
  echo "LAB_PREFIX=$LAB_PREFIX LAB_NS_WAN=$(ns_wan)"
  echo "LAB_PUBLIC1=$(wan_addr 1) LAB_PUBLIC2=$(wan_addr 2) LAB_PUBLIC1_V6=$WAN6::1 LAB_PUBLIC2_V6=$WAN6::2"
  for site in $LAB_SITES; do
    upper=${site^^}
    echo "LAB_NS_ROUTER_$upper=$(ns_router "$site") LAB_EXTERNAL_$upper=$(router_wan "$site")"
    echo "LAB_GATEWAY_$upper=$(lan_of "$site").1"
    for ((n = 1; n <= LAB_HOSTS; n++)); do
      echo "LAB_NS_$upper$n=$(ns_host "$site" "$n") LAB_HOST_$upper$n=$(host_addr "$site" "$n")"
      echo "LAB_HOST_$upper${n}_V6=$(host_addr6 "$site" "$n")"
    done
  done
}

print_status() {
  local site
  echo "lab $LAB_PREFIX: public $(wan_addr 1) $(wan_addr 2) $WAN6::1"
  for site in $LAB_SITES; do
    echo "site $site: $(site_get "$site" kind):$(site_get "$site" policy) " \
      "external=$(router_wan "$site") host=$(host_addr "$site") $(host_addr6 "$site")" \
      "$(daemon_alive "miniupnpd-$site" && echo port-mapping) "
  done
}

command=${1:-help}
shift || true
case $command in
  up) need_root; up "$@" ;;
  down) need_root; down ;;
  nat) need_root; need_lab; [[ $# -ge 2 ]] || fail "nat SITE KIND [POLICY]"; set_nat "$@" ;;
  upstream) need_root; need_lab; [[ $# == 2 ]] || fail "upstream SITE open|closed"; set_upstream "$@" ;;
  egress) need_root; need_lab; [[ $# == 2 ]] || fail "egress SITE all|web|none"; set_egress "$@" ;;
  line) need_root; need_lab; [[ $# == 2 ]] || fail "line SITE up|down"; set_line "$@" ;;
  forget) need_root; need_lab; [[ $# == 1 ]] || fail "forget SITE"; forget "$1" ;;
  renumber) need_root; need_lab; [[ $# == 1 ]] || fail "renumber SITE"; renumber "$1" ;;
  exec) need_root; need_lab; place=$(namespace_of "$1"); shift; exec ip netns exec "$place" "$@" ;;
  env) need_lab; print_env ;;
  status) need_lab; print_status ;;
  help | -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
  *) fail "unknown command '$command': try --help" ;;
esac
