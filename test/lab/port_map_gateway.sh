#!/bin/bash
# Gives a site's router a real NAT-PMP, PCP and UPnP-IGD daemon (miniupnpd). README.md explains it.
#
#   port_map_gateway.sh on SITE [natpmp|upnp|both]    default both
#   port_map_gateway.sh silent SITE                   requests are swallowed: how long does a client wait?
#   port_map_gateway.sh off SITE
#
# Hosts of the site may map ports 1024-65535 to themselves. Leases are at least 10 s. `nat` on a site
# removes its mappings: switch the gateway off and on again afterwards, as after the restart of a real router.
# miniupnpd refuses a router whose outside address is private or reserved; the default LAB_WAN is neither.
# Environment: LAB_PREFIX (lab).

. "$(dirname "${BASH_SOURCE[0]}")/lab_common.sh"

on() { # site protocols
  local site=$1 natpmp=yes upnp=yes folder
  case $2 in
    natpmp) upnp=no ;;
    upnp) natpmp=no ;;
    both) ;;
    *) fail "'$2': natpmp, upnp or both" ;;
  esac
  off "$site"
  folder=$LAB_STATE/miniupnpd-$site.d
  mkdir -p "$folder"
  : >"$folder/leases"
  cat >"$folder/conf" <<CONF
ext_ifname=wan
listening_ip=lan
enable_natpmp=$natpmp
enable_upnp=$upnp
secure_mode=yes
min_lifetime=10
max_lifetime=86400
upnp_table_name=fw
upnp_nat_table_name=fw
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
lease_file=$folder/leases
uuid=$(cat /proc/sys/kernel/random/uuid)
http_port=5000
allow 1024-65535 $(lan_of "$site").0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
CONF
  daemon_start "miniupnpd-$site" "$(ns_router "$site")" miniupnpd -d -f "$folder/conf" -P "$folder/pid"
  if ! wait_for 10 listening "$site" "$natpmp"; then
    cat "$LAB_STATE/miniupnpd-$site.log" >&2
    off "$site"
    fail "miniupnpd did not start"
  fi
}

listening() { # site natpmp: is the daemon ready?
  daemon_alive "miniupnpd-$1" || return 1
  if [[ $2 == yes ]]; then
    in_ns "$(ns_router "$1")" ss -Huln 'sport = 5351' | grep -q .
  else
    in_ns "$(ns_router "$1")" ss -Huln 'sport = 1900' | grep -q .
  fi
}

silent() { # site: unlike a router without the service, which refuses at once
  off "$1"
  in_ns "$(ns_router "$1")" nft insert rule inet fw input iifname lan udp dport '{ 5351, 1900 }' drop
}

off() { # site
  local router
  router=$(ns_router "$1")
  daemon_stop "miniupnpd-$1"
  rm -rf "$LAB_STATE/miniupnpd-$1.d"
  in_ns "$router" nft flush chain inet fw miniupnpd
  in_ns "$router" nft flush chain inet fw prerouting_miniupnpd
  in_ns "$router" nft flush chain inet fw postrouting_miniupnpd
  in_ns "$router" nft -a list chain inet fw input | sed -n 's/.*{ 1900, 5351 } drop # handle //p' |
    while read -r handle; do in_ns "$router" nft delete rule inet fw input handle "$handle"; done
}

need_root
command=${1:-help}
case $command in
  on | silent | off)
    need_lab
    need_tools nft miniupnpd ss
    [[ $# -ge 2 ]] || fail "which SITE?"
    need_site "$2"
    if [[ $command == on ]]; then on "$2" "${3:-both}"; else "$command" "$2"; fi ;;
  help | -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
  *) fail "unknown command '$command': try --help" ;;
esac
