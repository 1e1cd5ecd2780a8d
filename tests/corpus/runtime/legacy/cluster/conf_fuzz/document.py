HOSTS = [
  'root@192.168.100.17',
  "root@[fd00::2]:9090", ]
'''
x
'''
ROOT_DIR = "/home/paddle"
PADDLE_PORTS_NUM = 2 # two
